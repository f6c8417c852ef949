#include "engine/run/codec/codec.h"

#include <array>
#include <utility>
#include <variant>

#include "engine/run/codec/wire_inside.h"
#include "engine/run/codec/wire_kin.h"
#include "engine/run/codec/wire_outside.h"

namespace sandglass::engine::run::codec {
namespace {

using engine::codec::EncodedEvent;
using Decoder = Result<Event> (*)(std::string_view body);

constexpr std::uint32_t kVersion = 1;

template <class E>
Result<Event> decode_one(std::string_view body) {
  typename Wire<E>::Proto message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    return base::fail(base::Code::record_damaged, "a run's event cannot be parsed");
  }
  if (engine::codec::has_unknown_fields(message)) {
    return base::fail(base::Code::event_unknown, "a run's event has fields that are newer than this program");
  }
  auto event = Wire<E>::read(message);
  if (!event) return std::unexpected(event.error());
  return Event(std::move(*event));
}

constexpr std::size_t kTypes = 128;
using Table = std::array<Decoder, kTypes>;

template <std::size_t... kIndex>
constexpr Table make_table(std::index_sequence<kIndex...>) {
  Table table{};
  ((table[Wire<std::variant_alternative_t<kIndex, AnyEvent>>::kType] =
        &decode_one<std::variant_alternative_t<kIndex, AnyEvent>>),
   ...);
  return table;
}
constexpr Table kDecoders = make_table(std::make_index_sequence<std::variant_size_v<AnyEvent>>{});

}  // namespace

EncodedEvent RunCodec::encode(const Event& event) {
  return std::visit(
      []<class E>(const E& one) {
        typename Wire<E>::Proto message;
        Wire<E>::write(one, message);
        return EncodedEvent{.type = Wire<E>::kType, .version = kVersion, .body = message.SerializeAsString()};
      },
      event);
}

Result<Event> RunCodec::decode(const EncodedEvent& stored) {
  const Decoder decoder = stored.type < kTypes ? kDecoders[stored.type] : nullptr;
  if (decoder == nullptr || stored.version != kVersion) {
    return base::fail(base::Code::event_unknown, "a run's event of type " + std::to_string(stored.type) +
                                                     " version " + std::to_string(stored.version) +
                                                     " is newer than this program");
  }
  return decoder(stored.body);
}

std::string_view event_name(std::uint32_t type) {
  const std::string& name = proto::RunEventType_Name(static_cast<proto::RunEventType>(type));
  return name.empty() ? std::string_view("unknown") : std::string_view(name);
}

std::string_view event_name(const Event& event) {
  return event_name(
      std::visit([]<class E>(const E&) { return static_cast<std::uint32_t>(Wire<E>::kType); }, event));
}

}  // namespace sandglass::engine::run::codec
