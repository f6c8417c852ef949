// Frames of schemas/sandglass/frame/v1/network.proto ↔ the types of engine/net.
#pragma once

#include "engine/base/result.h"
#include "engine/net/gate.h"
#include "engine/net/rules.h"
#include "engine/net/verdict.h"
#include "schemas/sandglass/frame/v1/network.pb.h"

namespace sandglass::engine::net::codec {

namespace pb = ::sandglass::frame::v1;

/// Checks everything (config_invalid names the entry); fills in defaults and, without resolvers, the
/// machine's.
base::Result<NetworkSettings> to_settings(const pb::NetworkConfig& config);

base::Result<RuleSet> to_rules(const google::protobuf::RepeatedPtrField<pb::AllowRule>& rules);

pb::NetworkVerdict to_frame(const Verdict& verdict);
Verdict from_frame(const pb::NetworkVerdict& frame);

/// The whole of a descriptor (a memfd or file, at most 1 MiB) as a NetworkConfig. Does not close it.
base::Result<pb::NetworkConfig> read_config(int fd);

/// Puts the machine's resolvers into a configuration that names none: for programs that cannot open files
/// later. True if it did: then they follow the machine's changes (V16).
bool name_resolvers(pb::NetworkConfig& config);

/// A sealed, close-on-exec memfd that holds the configuration; what read_config reads.
base::Result<int> make_config_fd(const pb::NetworkConfig& config);

}  // namespace sandglass::engine::net::codec
