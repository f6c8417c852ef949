#include "activities/leases/leases.h"

namespace sandglass::activities::leases {

workflow::Task<base::Result<Lease>> claim(workflow::Context& ctx, std::string name, ClaimOptions options) {
  const workflow::RunInfo& info = ctx.info();
  workflow::ExchangeRequest request{.target = core::StreamId::named(core::StreamKind::admission, "")};
  request.body = core::LeaseRequested{.template_name = options.template_name,
                                      .tenant = info.tenant,
                                      .user = info.user,
                                      .wait_timeout_ms = options.queue_ms};
  auto answer = co_await ctx.exchange(std::move(name), std::move(request));
  if (!answer) co_return std::unexpected(answer.error());
  if (const auto* granted = std::get_if<core::LeaseGranted>(&answer->body)) {
    co_return Lease{.path = answer->path,
                    .sandbox = granted->sandbox,
                    .token = granted->token,
                    .provider = granted->provider,
                    .unenforced = granted->unenforced};
  }
  if (const auto* refused = std::get_if<core::LeaseRefused>(&answer->body)) {
    co_return base::fail(refused->code, refused->message);
  }
  co_return base::fail(base::Code::internal, "admission answered a claim with something else");
}

}  // namespace sandglass::activities::leases
