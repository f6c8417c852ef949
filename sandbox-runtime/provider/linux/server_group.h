// The control group of the server's own processes: beside those of its sandboxes, with kServerFactor times
// the part of the processors that one of them gets (V2). Its children enter it before they run anything;
// sandboxes leave it before they do. Thread rule: one thread.
#pragma once

#include <string>

#include "engine/base/unique_fd.h"
#include "sandbox-runtime/provider/linux/cgroups.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

class ServerGroup {
 public:
  /// Of the data folder with this id; one that a killed server has left is taken over. Without the right to
  /// make groups, or without a cpu controller, it is empty and the log says so.
  static ServerGroup make(const std::string& data_folder_id);

  /// For writing "0" into, by a process that enters; -1: there is no group.
  int door() const { return door_.get(); }
  /// When nothing is in it any more. One that is still busy stays for the next server of the folder.
  void remove();

 private:
  Cgroups groups_;
  std::string name_;
  engine::base::UniqueFd door_;
};

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
