#include "runtime/runtime/internal/rank_division.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/tensor/split.h"

namespace tessera {
namespace {

/// Each rank is a thread with its own memory, and the work of binding grows with the square of the
/// number of ranks. A larger number is a mistake in a plan.
constexpr size_t kMaxRanks = 1024;

}  // namespace

void check_rank_count(const std::vector<Rank>& ranks) {
  if (ranks.size() <= kMaxRanks) return;
  throw UserError(std::to_string(ranks.size()) + " ranks do not run in one process",
                  "each is a thread with its own memory, and a process starts at most " +
                      std::to_string(kMaxRanks),
                  "use a plan with smaller meshes, or start a process a rank with mpirun",
                  ExitCode::kBadConfig);
}

std::vector<int> processes_of(int ranks, const ProcessNetwork* network) {
  std::vector<int> process_of(ranks, 0);
  if (!network) return process_of;
  if (ranks < network->size())
    throw UserError("a plan of " + std::to_string(ranks) + " ranks does not run in " +
                        std::to_string(network->size()) + " processes",
                    "every process runs at least one rank",
                    "use a plan with as many ranks as processes, or start fewer processes",
                    ExitCode::kBadConfig);
  for (int process = 0; process < network->size(); ++process) {
    const Range block = balanced_part(ranks, network->size(), process);
    std::fill(process_of.begin() + block.begin, process_of.begin() + block.end, process);
  }
  return process_of;
}

}  // namespace tessera
