#include "engine/base/codes.h"

namespace sandglass::engine::base {

std::string_view name_of(Code code) {
  switch (code) {
#define SG_CODE(name, number, title) \
  case Code::name:                   \
    return #name;
#include "engine/base/codes.def"
#undef SG_CODE
  }
  return "unknown";
}

std::string_view title_of(Code code) {
  switch (code) {
#define SG_CODE(name, number, title) \
  case Code::name:                   \
    return title;
#include "engine/base/codes.def"
#undef SG_CODE
  }
  return "an error that this program does not know";
}

}  // namespace sandglass::engine::base
