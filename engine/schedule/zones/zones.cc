#include "engine/schedule/zones/zones.h"

#include <date/tz.h>

#include <exception>
#include <fstream>

namespace sandglass::engine::schedule::zones {
namespace {

using std::chrono::seconds;

class DateZone final : public Zone {
 public:
  explicit DateZone(const date::time_zone* zone) : zone_(zone) {}

  Span at(std::int64_t utc_s) const override {
    const date::sys_info info = zone_->get_info(date::sys_seconds(seconds(utc_s)));
    return {.begin_s = info.begin.time_since_epoch().count(),
            .end_s = info.end.time_since_epoch().count(),
            .offset_s = info.offset.count()};
  }

 private:
  const date::time_zone* zone_;
};

/// The first line of the data's own text: "# version 2026a".
std::string read_version() {
  std::ifstream file(std::string(kFolder) + "/tzdata.zi");
  std::string hash, word, version;
  file >> hash >> word >> version;
  return file && hash == "#" && word == "version" ? version : "unknown";
}

}  // namespace

base::Result<std::shared_ptr<const Zone>> find_zone(const std::string& name) {
  if (name.empty()) return std::make_shared<const UtcZone>();
  try {
    for (const date::time_zone& zone : date::get_tzdb().zones) {
      if (zone.name() != name) continue;
      zone.get_info(date::sys_seconds(seconds(0)));  // reads its file
      return std::make_shared<const DateZone>(&zone);
    }
  } catch (const std::exception& error) {
    return base::fail(base::Code::io_error, "the time zone " + name + " cannot be read from " + kFolder +
                                                " (package tzdata): " + error.what());
  }
  return base::fail(base::Code::invalid_argument,
                    "there is no time zone \"" + name +
                        "\" on the server's machine; names are as in Europe/Berlin (" + kFolder + ")");
}

const std::string& zone_data_version() {
  static const std::string version = read_version();
  return version;
}

}  // namespace sandglass::engine::schedule::zones
