// The cluster that a command line names, with the software that runs on it.
#pragma once

#include <memory>
#include <string>

#include "cluster/cluster/cluster.h"

namespace tessera {

/// The cluster of a command line: a file or one line. Its name is that of its description, else the
/// line.
struct NamedCluster {
  std::shared_ptr<const Cluster> cluster;
  std::string name;
};
///   runtime  a profile (profile_called), in place of that of the cluster; "": on_usual_runtime
NamedCluster named_cluster(const std::string& file_or_line, const std::string& runtime = "");

}  // namespace tessera
