#include "tools/cli/internal/run/named_cluster.h"

#include <utility>

#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/profile_file.h"

namespace tessera {

NamedCluster named_cluster(const std::string& file_or_line, const std::string& runtime) {
  ClusterDescription description = cluster_of(file_or_line).description();
  description = runtime.empty() ? on_usual_runtime(std::move(description))
                                : on_runtime(std::move(description), profile_called(runtime));
  const auto cluster = std::make_shared<const Cluster>(std::move(description));
  const std::string& name = cluster->description().name;
  return {cluster, name.empty() ? file_or_line : name};
}

}  // namespace tessera
