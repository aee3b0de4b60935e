// The stages of ops, written short: all ops below a common beginning of their names.
#pragma once

#include <string>
#include <vector>

#include "sharding/explicit/shardings.h"

namespace tessera {

/// The names of ops by stage. Where all ops with a common beginning are on one stage, "blocks.0.*"
/// stands for them.
///
///   ops     the names of all ops of a graph
///   stages  of each of them
std::vector<PatternDecision> stage_patterns(const std::vector<std::string>& ops,
                                            const std::vector<std::string>& stages);

}  // namespace tessera
