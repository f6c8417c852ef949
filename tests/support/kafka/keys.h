// An authority, a certificate for brokers at "localhost" and one for a client, made by openssl, in a folder
// that goes with the object.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

#include "engine/base/check.h"
#include "tests/support/temp_folder.h"

namespace sandglass::tests::support {

class Keys {
 public:
  Keys() {
    run("req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=authority' -keyout authority.key -out "
        "authority.pem");
    std::ofstream(folder_.file("localhost.txt")) << "subjectAltName=DNS:localhost\n";
    issue("broker", "localhost");
    issue("client", "engine");
  }

  std::string authority() const { return folder_.file("authority.pem"); }
  /// Key and certificate in one file.
  std::string broker() const { return folder_.file("broker.pem"); }
  std::string client() const { return folder_.file("client.pem"); }

 private:
  void run(const std::string& words) {
    const std::string command = "cd " + folder_.path() + " && openssl " + words + " >>log 2>&1";
    SG_CHECK(std::system(command.c_str()) == 0, command);
  }
  void issue(const std::string& name, const std::string& subject) {
    run("req -newkey rsa:2048 -nodes -subj '/CN=" + subject + "' -keyout " + name + ".key -out " + name +
        ".csr");
    run("x509 -req -days 2 -in " + name +
        ".csr -CA authority.pem -CAkey authority.key -CAcreateserial -out " + name +
        ".crt -extfile localhost.txt");
    std::ofstream both(folder_.file(name + ".pem"));
    for (const char* suffix : {".key", ".crt"}) both << std::ifstream(folder_.file(name + suffix)).rdbuf();
  }

  TempFolder folder_;
};

}  // namespace sandglass::tests::support
