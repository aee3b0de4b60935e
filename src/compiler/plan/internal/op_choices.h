// The keys of a plan whose value is a word or a list of patterns of ops.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files/config_table.h"
#include "base/files/document.h"
#include "compiler/plan/task_granularity.h"
#include "compiler/rewrite/recompute.h"
#include "ir/graph/graph.h"

namespace tessera {

///   throws  UserError (78) for another value
TaskGranularity read_tasks(ConfigTable& table);
Recompute read_recompute(ConfigTable& table);

/// Write nothing for the default.
void write_tasks(const TaskGranularity& tasks, Document& document);
void write_recompute(const Recompute& recompute, Document& document);

///   throws  UserError (78) when one of the patterns of the key names no op
void check_patterns(std::string_view key, const std::vector<std::string>& patterns,
                    const std::string& plan, const Graph& graph);

}  // namespace tessera
