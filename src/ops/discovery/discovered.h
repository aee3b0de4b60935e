// What discovery (discovery.h) finds.
//
//     dot_general "mk,kn->mn":  [[1, 2], [2, 3]]; 1: join(0); 2: sum; 3: join(1)
//     reshape [128,3,32,32] -> [128,3072]:
//         [[1, 2, 3, 4]]; 1: join(0); 2: join(1*1024); 3: join(1*32 in 3 chunks); ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/reduce_op.h"

namespace tessera {

/// How a factor goes through one dim of an operand: dim extent = chunks x factor extent x unit.
/// Indices [b, e) of the factor are, in each chunk, its units [b, e). With one chunk that is a
/// plain split.
struct DiscoveredDim {
  int dim = -1;  // -1: the operand does not have the factor
  int64_t unit = 1;
  int64_t chunks = 1;

  bool operator==(const DiscoveredDim&) const = default;
};

/// What makes a result of the whole op out of the results of its parts.
struct DiscoveredResult {
  enum class Restore {
    kSame,    // each part has it already
    kJoin,    // put side by side along a dim
    kReduce,  // added, or maximised, ...
  };
  Restore restore = Restore::kSame;
  DiscoveredDim along;               // of kJoin
  ReduceOp reduce = ReduceOp::kSum;  // of kReduce

  bool operator==(const DiscoveredResult&) const = default;
};

/// An integer among the attributes that grows with a dim, such as an entry of the shape of reshape:
/// a part has its part of it.
struct SizeAttribute {
  std::string name;
  int entry = -1;  // of a list; -1: the attribute is one integer

  bool operator==(const SizeAttribute&) const = default;
};

struct DiscoveredFactor {
  int64_t extent = 1;
  std::vector<DiscoveredDim> inputs;
  std::vector<DiscoveredResult> outputs;
  std::optional<SizeAttribute> attribute;
  /// Elements that a part needs beside its own: they overlap those of its neighbours, and what they
  /// add to the result is cut off.
  int64_t halo_before = 0, halo_after = 0;
  /// Integer operands without the factor count from the beginning of the part, as ids in a divided
  /// vocabulary do.
  bool counts_from_part = false;

  bool operator==(const DiscoveredFactor&) const = default;
};

struct Discovery {
  std::vector<DiscoveredFactor> factors;  // by first operand and dim
  std::vector<std::vector<int>> linear;   // the smallest sets, as ShardingRule::linear
  std::string nothing_because;            // why the op was not tried; "" when it was
};
/// `[[1, 2], [2, 3]]; 1: join(0); 2: sum; 3: join(1)`: the factor of each dim of each input (0:
/// none), then what restores the results.
std::string to_text(const Discovery& discovery);

}  // namespace tessera
