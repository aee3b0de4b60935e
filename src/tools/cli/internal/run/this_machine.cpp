#include "tools/cli/internal/run/this_machine.h"

#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/detect.h"
#include "tools/cli/internal/run/plan_cache.h"

namespace tessera {

std::optional<std::filesystem::path> kept_machine_file() {
  const auto folder = cache_folder();
  if (!folder) return std::nullopt;
  return *folder / ("machine-" + name_of_this_machine() + ".toml");
}

std::optional<ClusterDescription> kept_machine() {
  const auto file = kept_machine_file();
  std::error_code error;
  if (!file || !std::filesystem::is_regular_file(*file, error)) return std::nullopt;
  return read_cluster(*file).description();
}

ClusterDescription this_machine() {
  const auto kept = kept_machine();
  return kept ? *kept : detect_machine();
}

}  // namespace tessera
