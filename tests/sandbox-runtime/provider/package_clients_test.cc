// What package managers inside are told (V8), from made-up machines.
#include "sandbox-runtime/provider/linux/package_clients.h"

#include <gtest/gtest.h>

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

struct Machine {
  std::map<std::string, std::string> variables;
  std::map<std::string, std::string> files;

  MachineSource source() const {
    const auto find = [](const std::map<std::string, std::string>& in, const std::string& key) {
      const auto found = in.find(key);
      return found == in.end() ? std::nullopt : std::optional<std::string>(found->second);
    };
    return {.variable = [=, this](const std::string& name) { return find(variables, name); },
            .file = [=, this](const std::string& path) { return find(files, path); },
            .names =
                [this](const std::string& folder) {
                  std::vector<std::string> names;
                  for (const auto& [path, content] : files) {
                    if (path.starts_with(folder + "/")) names.push_back(path.substr(folder.size() + 1));
                  }
                  return names;
                }};
  }
  PackageClients clients() const { return package_clients(source()); }
  std::string everything() const {
    std::string all;
    for (const auto& [path, content] : clients().files) all += content;
    return all;
  }
};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(PackageClients, ABareMachineGivesProxyAndCertificatesOnly) {
  const PackageClients made = Machine{}.clients();
  EXPECT_TRUE(has(made.files.at("etc/npmrc"), "https-proxy=http://127.0.0.1:3128\n"));
  EXPECT_FALSE(has(made.files.at("etc/npmrc"), "registry"));
  EXPECT_TRUE(has(made.files.at("etc/pip.conf"), "[global]\nproxy = http://127.0.0.1:3128\n"));
  EXPECT_TRUE(has(made.files.at("etc/apt/apt.conf"), "Acquire::https::Proxy \"http://127.0.0.1:3128\";"));
  EXPECT_EQ(made.files.at("etc/apt/sources.list"), "");
  EXPECT_TRUE(made.left_out.empty());
}

TEST(PackageClients, OnlyTheAddressesOfRegistriesAreTakenOver) {
  Machine machine;
  machine.variables = {{"HOME", "/home/op"}};
  machine.files = {
      {"/etc/npmrc", "registry = https://weaker.example/npm/\n"},
      {"/home/op/.npmrc",
       "; mine\nregistry=https://npm.example/repo/\n@team:registry=https://team.example/\n"
       "//npm.example/repo/:_authToken=canary-token\n_auth=canary-auth\nemail=canary@example.com\n"
       "//npm.example/:_password=canary-password\nscript-shell=/canary\ncafile=/canary\nproxy=http://canary/"
       "\n"},
      {"/etc/pip.conf",
       "[global]\nindex-url = https://pip.example/simple\nextra-index-url = https://more.example/simple "
       "https://u:canary@more.example/simple\ntrusted-host = canary.example\n[install]\nindex-url = "
       "https://canary.example\n"},
      {"/etc/apt/sources.list",
       "# deb http://canary.example/ x main\ndeb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] "
       "http://deb.example/debian bookworm main contrib\ndeb [signed-by=/etc/canary.gpg] http://deb2.example "
       "x "
       "main\ndeb http://u:canary@deb3.example/ x main\ndeb cdrom:[canary]/ x main\n"},
      {"/etc/apt/sources.list.d/b.sources",
       "Types: deb deb-src\nURIs: https://deb4.example/debian\nSuites: one two\nComponents: main\nSigned-By: "
       "/usr/share/keyrings/b.gpg\n\nTypes: deb\nEnabled: no\nURIs: http://canary.example/\nSuites: "
       "x\nComponents: main\n"}};
  const PackageClients made = machine.clients();
  EXPECT_FALSE(has(machine.everything(), "canary")) << machine.everything();
  const std::string& npm = made.files.at("etc/npmrc");
  EXPECT_TRUE(has(npm, "\nregistry=https://npm.example/repo/\n"));
  EXPECT_TRUE(has(npm, "\n@team:registry=https://team.example/\n"));
  EXPECT_FALSE(has(npm, "weaker"));
  EXPECT_TRUE(has(made.files.at("etc/pip.conf"), "\nindex-url = https://pip.example/simple\n"));
  EXPECT_TRUE(has(made.files.at("etc/pip.conf"), "\nextra-index-url = https://more.example/simple\n"));
  EXPECT_EQ(made.files.at("etc/apt/sources.list"),
            "deb [signed-by=/usr/share/keyrings/a.gpg] http://deb.example/debian bookworm main contrib\n"
            "deb [signed-by=/usr/share/keyrings/b.gpg] https://deb4.example/debian one main\n"
            "deb [signed-by=/usr/share/keyrings/b.gpg] https://deb4.example/debian two main\n"
            "deb-src [signed-by=/usr/share/keyrings/b.gpg] https://deb4.example/debian one main\n"
            "deb-src [signed-by=/usr/share/keyrings/b.gpg] https://deb4.example/debian two main\n");
  EXPECT_EQ(made.left_out, (std::vector<std::string>{"pip: extra-index-url", "apt: source", "apt: source"}));
}

TEST(PackageClients, TheServersEnvironmentIsTheStrongestAndIsJudgedAlike) {
  Machine machine;
  machine.files = {{"/etc/npmrc", "registry=https://file.example/\n"}};
  machine.variables = {{"npm_config_registry", "https://env.example/"},
                       {"PIP_INDEX_URL", "https://user:canary@pip.example/simple"}};
  EXPECT_TRUE(has(machine.clients().files.at("etc/npmrc"), "\nregistry=https://env.example/\n"));
  EXPECT_FALSE(has(machine.everything(), "file.example"));
  EXPECT_FALSE(has(machine.everything(), "canary"));
  machine.variables["npm_config_registry"] = "https://canary@env.example/";
  EXPECT_FALSE(has(machine.clients().files.at("etc/npmrc"), "registry="))
      << "a weaker place must not stand in for one that is refused";
}

TEST(PackageClients, AnAddressThatMayHoldASecretIsNone) {
  for (const char* good :
       {"https://registry.example.com/", "http://10.1.2.3:8081/repository/npm-group/",
        "https://a.example/artifactory/api/npm/npm-virtual", "https://a.example/~x/debian+y"}) {
    EXPECT_TRUE(is_plain_registry(good)) << good;
  }
  for (const char* bad : {"",
                          "https://",
                          "ftp://a.example/",
                          "a.example",
                          "https://user@a.example/",
                          "https://u:p@a.example/",
                          "https://a.example/?token=x",
                          "https://a.example/#x",
                          "https://${TOKEN}.example/",
                          "https://a.example/$TOKEN",
                          "https://a.example/%41",
                          "https://a.example/a\nregistry=x",
                          "https://a.example/\"",
                          "https://a.example/ x",
                          "https://a.example/AbCdEf0123456789AbCd/simple",
                          "https://a.example/x/0123456789abcdef0123/",
                          "https:///x",
                          "https://[::1]/x",
                          "https://a.example/u:p/x",
                          "https://-x/"}) {
    EXPECT_FALSE(is_plain_registry(bad)) << bad;
  }
  EXPECT_FALSE(is_plain_registry("https://a.example/" + std::string(600, 'a')));
}

TEST(PackageClients, OfABundleOnlyWholeCertificatesAreTaken) {
  const std::string one = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n";
  const std::string two = "-----BEGIN CERTIFICATE-----\nREVG\n-----END CERTIFICATE-----\n";
  EXPECT_EQ(certificates_of("# remark\n" + one + "junk\n" + two + one), one + two);
  EXPECT_EQ(certificates_of("-----BEGIN CERTIFICATE-----\r\nQUJD\r\n-----END CERTIFICATE-----\r\n"), one);
  const std::string key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
  EXPECT_EQ(certificates_of(key + one + key), one);
  EXPECT_EQ(certificates_of("-----BEGIN CERTIFICATE-----\nQUJD\n" + key + "-----END CERTIFICATE-----\n"), "")
      << "a key inside a block that never ended";
  EXPECT_EQ(certificates_of("-----BEGIN CERTIFICATE-----\nQUJD\n" + one), one);
  EXPECT_EQ(certificates_of("-----BEGIN CERTIFICATE-----\npassword: x\n-----END CERTIFICATE-----\n"), "");
}

TEST(PackageClients, TheOperatorsBundleIsThatOfTheMachineAndOfTheServersEnvironment) {
  const auto certificate = [](const std::string& body) {
    return "-----BEGIN CERTIFICATE-----\n" + body + "\n-----END CERTIFICATE-----\n";
  };
  Machine machine;
  machine.files = {{"/etc/ssl/certs/ca-certificates.crt", certificate("QQ==")},
                   {"/op/extra.pem", certificate("Qg==") + certificate("QQ==")},
                   {"/op/other.pem", certificate("Qw==")},
                   {"relative.pem", certificate("RA==")}};
  machine.variables = {{"NODE_EXTRA_CA_CERTS", "/op/extra.pem"},
                       {"SSL_CERT_FILE", "/op/other.pem"},
                       {"PIP_CERT", "relative.pem"},
                       {"CURL_CA_BUNDLE", "/op/none.pem"}};
  EXPECT_EQ(operator_certificates(machine.source()),
            certificate("QQ==") + certificate("Qw==") + certificate("Qg=="));
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::provider::linux_jail
