#include "engine/workflow/activator.h"

#include <utility>

namespace sandglass::engine::workflow {

std::uint64_t restart_point_of(const core::StreamState& state) {
  const std::uint64_t restart = static_cast<const core::StateOf<run::State>&>(state).value.restart_seq;
  return restart == 0 ? 1 : restart;
}

void InlineActivator::poll(std::vector<core::ActivationAnswer>& answers) {
  for (core::ActivationRequest& request : std::exchange(requests_, {})) {
    answers.push_back(runs_.activate(std::move(request)));
  }
}

void InlineActivator::evict(const core::StreamId& stream) {
  runs_.evict(stream);
  std::erase_if(requests_, [&](const core::ActivationRequest& request) { return request.stream == stream; });
}

void InlineActivator::evict_all() {
  runs_.evict_all();
  requests_.clear();
}

}  // namespace sandglass::engine::workflow
