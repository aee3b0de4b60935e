// Clusters and random numbers for tests and benchmarks of mappings.
#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "cluster/cluster/description.h"

namespace tessera::mapping_testing {

DeviceType device_type(const std::string& name, HardwareKind kind, int64_t gigabytes,
                       double flops_per_second = 1e14);

LinkLevel level(const std::string& name, double gigabytes_a_second,
                LinkSharing sharing = LinkSharing::kSwitch, double microseconds = 1);

/// prefix0, prefix1, ...
std::vector<std::string> names(const std::string& prefix, int count);

/// A level of the network over switches that join `size` children each.
NetworkLevel network(const LinkLevel& link, int children, int size);

/// GPUs "a" of 80 GB under the levels l0, l1, ..., each with n children, from the machine
/// outwards. The links of each level are `ratio` times slower than those below it.
ClusterDescription tree_of(const std::vector<int>& fans, double gigabytes_a_second = 300,
                           double ratio = 6);

/// Random numbers that depend on the seed only.
class Dice {
 public:
  explicit Dice(uint64_t seed) : stream_(seed, 0) {}
  int below(int count) { return static_cast<int>(uniform() * count); }
  double uniform() { return static_cast<double>(stream_.uniform(next_++)); }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

}  // namespace tessera::mapping_testing
