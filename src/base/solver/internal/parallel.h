// Runs independent tasks on several threads.
#pragma once

#include <functional>
#include <vector>

namespace tessera::solver {

/// Runs all tasks in their order, each on the next free thread. The calling thread is one of them.
///   threads  at least 1; no more are used than there are tasks
///   throws   the exception of a task, when all threads have ended
void run_tasks(const std::vector<std::function<void()>>& tasks, int threads);

}  // namespace tessera::solver
