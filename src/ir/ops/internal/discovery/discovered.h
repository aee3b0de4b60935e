// The results of discovery (discovery.h).
//
//     dot_general "mk,kn->mn":  [[1, 2], [2, 3]]; 1: join(0); 2: sum; 3: join(1)
//     reshape [128,3,32,32] -> [128,3072]:
//         [[1, 2, 3, 4]]; 1: join(0); 2: join(1*1024); 3: join(1*32 in 3 chunks); ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor/reduce_op.h"

namespace tessera {

/// The dim of an operand that a factor divides: dim extent = chunks x factor extent x unit. Indices
/// [b, e) of the factor are the units [b, e) of each chunk. With one chunk that is a plain split.
struct DiscoveredDim {
  int dim = -1;  // -1: the operand does not have the factor
  int64_t unit = 1;
  int64_t chunks = 1;

  bool operator==(const DiscoveredDim&) const = default;
};

/// The restoration of a result of the whole op from the results of its parts.
struct DiscoveredResult {
  enum class Restore {
    kSame,    // each part already has the result
    kJoin,    // the parts are concatenated along a dim
    kReduce,  // the parts are added, or reduced by maximum, ...
  };
  Restore restore = Restore::kSame;
  DiscoveredDim along;               // for kJoin
  ReduceOp reduce = ReduceOp::kSum;  // for kReduce

  bool operator==(const DiscoveredResult&) const = default;
};

/// An integer among the attributes that grows with a dim, such as an entry of the shape of reshape.
/// Each part has its part of it.
struct SizeAttribute {
  std::string name;
  int entry = -1;  // index in a list; -1: the attribute is one integer

  bool operator==(const SizeAttribute&) const = default;
};

struct DiscoveredFactor {
  int64_t extent = 1;
  std::vector<DiscoveredDim> inputs;
  std::vector<DiscoveredResult> outputs;
  std::optional<SizeAttribute> attribute;
  /// Elements that a part needs in addition to its own. They overlap those of its neighbours, and
  /// their results are cut off.
  int64_t halo_before = 0, halo_after = 0;
  /// Do integer operands without the factor count from the beginning of the part, as ids in a
  /// divided vocabulary do?
  bool counts_from_part = false;

  bool operator==(const DiscoveredFactor&) const = default;
};

struct Discovery {
  std::vector<DiscoveredFactor> factors;  // in the order of the first operand and dim
  std::vector<std::vector<int>> linear;   // the smallest sets, as ShardingRule::linear
  std::string nothing_because;            // the reason why the op was not tried; "" when it was
};
/// `[[1, 2], [2, 3]]; 1: join(0); 2: sum; 3: join(1)`: the factor of each dim of each input (0:
/// none), then the restoration of the results.
std::string to_text(const Discovery& discovery);

}  // namespace tessera
