#include "engine/net/resolv_conf.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace sandglass::engine::net {

std::vector<Endpoint> read_resolv_conf(std::string_view text) {
  constexpr std::size_t at_most = 3;
  std::vector<Endpoint> result;
  std::istringstream lines{std::string(text)};
  for (std::string line; result.size() < at_most && std::getline(lines, line);) {
    std::istringstream words(line);
    std::string keyword;
    std::string address;
    if (!(words >> keyword >> address) || keyword != "nameserver") continue;
    if (const auto parsed = parse_address(address)) result.push_back({*parsed, 53});
  }
  return result;
}

std::vector<Endpoint> resolvers_of(std::string_view text) {
  auto result = read_resolv_conf(text);
  if (result.empty()) result.push_back({*parse_ipv4("127.0.0.1"), 53});
  return result;
}

std::vector<Endpoint> machine_resolvers() {
  std::ifstream file("/etc/resolv.conf");
  return resolvers_of(std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace sandglass::engine::net
