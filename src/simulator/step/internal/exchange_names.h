// Names of exchanges for readers.
#pragma once

#include <string>

#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The mesh axes over which the parts of an exchange change a placement: "dp,tp"; "" between
/// meshes.
///   requires  an exchange
std::string axes_of(const Task& task);
/// "all-reduce over tp", "messages between meshes".
///   requires  an exchange
std::string exchange_name(const Task& task);

}  // namespace tessera
