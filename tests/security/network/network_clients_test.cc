// What package managers inside are told (V8), and that nothing else of the machine's configuration comes with
// it.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/base/system_ports.h"
#include "tests/security/network/network_rig.h"

namespace sandglass::tests::security {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

/// The operator's home and environment, with tokens in them, while a host of its own starts.
class Operator {
 public:
  Operator() {
    std::string name = "/tmp/sandglass-operator-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    home_ = name;
    write(".npmrc",
          "registry=https://npm.example.com/repo/\n//npm.example.com/repo/:_authToken=canary-npm-token\n"
          "_auth=canary-npm-auth\n@team:registry=https://user:canary-user@team.example.com/\n");
    write(".config/pip/pip.conf",
          "[global]\nindex-url = https://pip.example.com/simple\nextra-index-url = "
          "https://user:canary-pip@more.example.com/simple\n");
    write(".pypirc", "[pypi]\npassword = canary-pypirc\n");
    write(".netrc", "machine npm.example.com login x password canary-netrc\n");
    write(".gitconfig", "[http]\nextraHeader = canary-git\n");
    write(".docker/config.json", "canary-docker");
    for (const auto& [variable, value] : variables_) {
      if (const char* had = std::getenv(variable.c_str())) before_[variable] = had;
      ::setenv(variable.c_str(), (value == "HOME" ? home_.string() : value).c_str(), 1);
    }
  }
  ~Operator() {
    for (const auto& [variable, value] : variables_) {
      const auto had = before_.find(variable);
      had == before_.end() ? ::unsetenv(variable.c_str())
                           : ::setenv(variable.c_str(), had->second.c_str(), 1);
    }
    fs::remove_all(home_);
  }

 private:
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((home_ / path).parent_path());
    std::ofstream(home_ / path) << text;
  }

  fs::path home_;
  std::map<std::string, std::string> variables_ = {
      {"HOME", "HOME"},
      {"XDG_CONFIG_HOME", "/nonexistent"},
      {"NPM_TOKEN", "canary-env-npm"},
      {"npm_config__auth", "canary-env-auth"},
      {"PIP_EXTRA_INDEX_URL", "https://canary-env-pip@pip.example.com/simple"},
      {"AWS_SECRET_ACCESS_KEY", "canary-env-aws"},
      {"HTTP_PROXY", "http://canary-proxy:pw@proxy.example.com:3128"},
      {"GIT_SSH_COMMAND", "canary-env-ssh"}};
  std::map<std::string, std::string> before_;
};

TEST(PackageClientFiles, RegistriesCertificatesAndProxyAreThereAndNoToken) {  // V8, ADV-D1, ADV-D13
  const Operator op;
  sandbox_runtime::host::HostRig host;
  host.start_egress("");
  provider::CreateRequest request;
  request.spec.id = "clients";
  request.spec.tmpl = sandbox_runtime::host::HostRig::small_template();
  request.spec.tmpl.network = true;
  request.fence = 1;
  request.expires_at_ms = engine::base::SystemClock().monotonic_ns() / 1'000'000 + 300'000;
  ASSERT_TRUE(host.create(std::move(request)));
  const auto shell = [&](const std::string& script) {
    const auto done = host.exec({"clients", 1}, host.shell(script));
    return done ? done->out + done->err : done.error().message;
  };

  const std::string npm = shell("cat /etc/npmrc");
  EXPECT_THAT(npm, HasSubstr("\nregistry=https://npm.example.com/repo/\n"));
  EXPECT_THAT(npm, HasSubstr("https-proxy=http://127.0.0.1:3128\n"));
  EXPECT_THAT(npm, Not(HasSubstr("team")));
  EXPECT_THAT(shell("cat /etc/pip.conf"), HasSubstr("proxy = http://127.0.0.1:3128\n"));
  EXPECT_THAT(shell("cat /etc/apt/apt.conf"), HasSubstr("Acquire::http::Proxy \"http://127.0.0.1:3128\";"));

  const std::string variables = shell("env | sort");
  for (const char* proxy : {"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"}) {
    EXPECT_THAT(variables, HasSubstr(std::string(proxy) + "=http://127.0.0.1:3128\n"));
  }
  for (const char* empty : {"NO_PROXY=\n", "no_proxy=\n"}) EXPECT_THAT(variables, HasSubstr(empty));
  for (const char* bundle : {"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT",
                             "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"}) {
    EXPECT_THAT(variables, HasSubstr(std::string(bundle) + "=/etc/ssl/certs/ca-certificates.crt\n"));
  }
  EXPECT_THAT(shell("grep -c 'BEGIN CERTIFICATE' $SSL_CERT_FILE; grep -c PRIVATE $SSL_CERT_FILE"),
              testing::MatchesRegex("[1-9][0-9]*\n0\n"));

  EXPECT_THAT(variables, Not(HasSubstr("canary")));
  const std::string found = shell(
      "grep -rl canary- / --exclude-dir=proc --exclude-dir=usr 2>/dev/null; grep -l canary- "
      "/proc/[0-9]*/environ "
      "/proc/[0-9]*/cmdline 2>/dev/null | grep -v self; ls -a $HOME");
  EXPECT_EQ(found.find("canary"), std::string::npos);
  for (const char* file : {"/etc/", "npmrc", "environ", ".netrc", ".gitconfig", ".pypirc"}) {
    EXPECT_THAT(found, Not(HasSubstr(file))) << found;
  }
}

}  // namespace
}  // namespace sandglass::tests::security
