// The one-pass check of JSON from outside (J3). Oracle: what it accepts a full parser accepts, too, and reads
// without a doubled key; what it accepts stays accepted with white space around it.
#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/check.h"
#include "engine/codec/json.h"
#include "tests/fuzz/fuzz_target.h"

FUZZ_TARGET(json) {
  using namespace sandglass::engine;
  const bool accepted = codec::check_json(input).has_value();
  const auto value = nlohmann::json::parse(input.begin(), input.end(), nullptr, false);
  if (accepted) {
    SG_CHECK(!value.is_discarded(), "accepted, and no JSON for a full parser");
    SG_CHECK(codec::check_json(" \r\n\t" + std::string(input) + " ", {.max_bytes = 1 << 20}).has_value(),
             "white space around a value makes it refused");
    // What we make of it ourselves passes our own check.
    const std::string again = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::strict);
    SG_CHECK(codec::check_json(again, {.max_bytes = 8 << 20}).has_value(), "its second writing is refused");
  }
  const codec::JsonLimits small{.max_bytes = 64, .max_depth = 3, .max_values = 8};
  const bool small_accepted = codec::check_json(input, small).has_value();
  SG_CHECK(!small_accepted || (accepted && input.size() <= 64), "a smaller limit accepts more");
}
