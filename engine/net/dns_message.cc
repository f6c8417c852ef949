#include "engine/net/dns_message.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>

namespace sandglass::engine::net {
namespace {

constexpr std::uint16_t type_a = 1;
constexpr std::uint16_t type_cname = 5;
constexpr std::uint16_t type_aaaa = 28;
constexpr std::uint16_t class_in = 1;

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool failed() const { return failed_; }
  std::size_t at() const { return at_; }

  std::uint16_t u16() {
    if (!need(2)) return 0;
    const auto high = static_cast<std::uint8_t>(bytes_[at_]);
    const auto low = static_cast<std::uint8_t>(bytes_[at_ + 1]);
    at_ += 2;
    return static_cast<std::uint16_t>(high << 8 | low);
  }

  void skip(std::size_t count) {
    if (need(count)) at_ += count;
  }

  std::string_view take(std::size_t count) {
    if (!need(count)) return {};
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  /// A name in lower case without the last dot. A label with a byte that no host name has is kept as "?", so
  /// that it equals no name that we ask for.
  std::string name() {
    std::string result;
    std::size_t at = at_;
    bool jumped = false;
    for (int steps = 0; steps < 128; ++steps) {
      if (at >= bytes_.size()) break;
      const auto length = static_cast<std::uint8_t>(bytes_[at]);
      if (length == 0) {
        if (!jumped) at_ = at + 1;
        return result;
      }
      if ((length & 0xC0) == 0xC0) {
        if (at + 1 >= bytes_.size()) break;
        const std::size_t target =
            static_cast<std::size_t>(length & 0x3F) << 8 | static_cast<std::uint8_t>(bytes_[at + 1]);
        if (!jumped) at_ = at + 2;
        jumped = true;
        if (target >= at) break;  // only backwards: no loop
        at = target;
        continue;
      }
      if (length > 63 || at + 1 + length > bytes_.size() || result.size() + length > 254) break;
      if (!result.empty()) result += '.';
      for (std::size_t i = 0; i < length; ++i) result += clean(bytes_[at + 1 + i]);
      at += 1u + length;
    }
    failed_ = true;
    return {};
  }

 private:
  bool need(std::size_t count) {
    if (failed_ || bytes_.size() - at_ < count) failed_ = true;
    return !failed_;
  }

  static char clean(char c) {
    if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
    const bool fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    return fine ? c : '?';
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

struct Records {
  std::map<std::string, std::string> aliases;
  std::map<std::string, std::vector<Address>> addresses;
};

void read_record(Reader& reader, std::uint16_t wanted, Records& records) {
  std::string owner = reader.name();
  const std::uint16_t type = reader.u16();
  const std::uint16_t klass = reader.u16();
  reader.skip(4);  // time to live: one resolution, one connection, nothing is cached
  const std::uint16_t length = reader.u16();
  if (reader.failed()) return;
  if (klass == class_in && type == type_cname) {
    const std::size_t end = reader.at() + length;
    std::string target = reader.name();
    if (!reader.failed() && reader.at() == end) {
      records.aliases.emplace(std::move(owner), std::move(target));
    } else {
      reader.skip(SIZE_MAX);  // a name longer or shorter than its record: fail
    }
    return;
  }
  const std::string_view data = reader.take(length);
  const std::size_t size = wanted == type_a ? 4 : 16;
  if (reader.failed() || klass != class_in || type != wanted || data.size() != size) return;
  auto& list = records.addresses[std::move(owner)];
  if (list.size() >= max_addresses) return;
  Address address{.v6 = wanted == type_aaaa};
  std::memcpy(address.bytes.data(), data.data(), size);
  list.push_back(address);
}

}  // namespace

base::Result<std::vector<Address>> read_dns_answer(std::string_view message, const std::string& name,
                                                   bool v6) {
  const auto malformed = [] {
    return base::fail(base::Code::resolve_failed, "the name server's answer is malformed");
  };
  Reader reader(message);
  reader.skip(2);
  const std::uint16_t flags = reader.u16();
  const std::uint16_t questions = reader.u16();
  const std::uint16_t answers = reader.u16();
  reader.skip(4);
  if (reader.failed() || (flags & 0x8000) == 0 || questions > 1) return malformed();
  if (questions == 1) {
    reader.name();
    reader.skip(4);
  }
  Records records;
  for (std::uint16_t i = 0; i < answers && !reader.failed(); ++i) {
    read_record(reader, v6 ? type_aaaa : type_a, records);
  }
  if (reader.failed()) return malformed();
  std::string current = name;
  for (int step = 0; step <= max_cname_chain; ++step) {
    const auto alias = records.aliases.find(current);
    if (alias == records.aliases.end()) return records.addresses[current];
    current = alias->second;
  }
  return base::fail(base::Code::resolve_failed, "the name's chain of aliases is a loop or longer than 8");
}

}  // namespace sandglass::engine::net
