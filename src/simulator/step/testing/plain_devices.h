// Devices for tests of predictions, whose times follow by hand.
#pragma once

#include <string>

#include "cluster/cluster/cluster_file.h"

namespace tessera {

/// Devices of 1 Tflop/s for products and 1 GB/s between them, without latencies and launches, whose
/// memory is so fast that it does not count.
inline Cluster plain_devices(int count, const std::string& memory = "1 GB") {
  const std::string text = R"(
[device.plain]
kind = "gpu"
memory = ")" + memory + R"("
rates = {arithmetic = "1 Tflop/s", memory = "1000 TB/s", copies = "1000 TB/s", launch = "0 s"}
[[machine]]
count = 1
device = "plain"
devices = )" + std::to_string(count) +
                           R"(
links = [{name = "link", bandwidth = "1 GB/s", latency = "0 s"}]
)";
  return parse_cluster(parse_toml(text, "plain.toml"), "plain.toml");
}

}  // namespace tessera
