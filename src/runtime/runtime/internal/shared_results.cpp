#include "runtime/runtime/internal/shared_results.h"

#include <array>

#include "base/error.h"
#include "runtime/memory/variable_store.h"

namespace tessera {

namespace {

/// Aligns the parts, which follow each other, so that any element may begin at their addresses.
int64_t aligned(int64_t bytes) {
  return (bytes + 7) / 8 * 8;
}

}  // namespace

SharedResults::SharedResults(const TaskGraph& graph, const std::vector<Rank>& ranks,
                             const std::vector<int>& process_of, ProcessNetwork& network)
    : network_(network) {
  int64_t own = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (size_t result = 0; result < graph.results.size(); ++result) {
      const Register& reg = graph.registers[graph.results[result].second];
      const auto coordinate = reg.attr.mesh->coordinate_of(ranks[rank]);
      if (!coordinate || !is_first_holder(reg.attr, *coordinate)) continue;
      const Box all = whole_box(reg.type->shape);
      for (const Piece& piece : reg.attr.pieces(reg.type->shape, *coordinate)) {
        Part part{process_of[rank], result,
                  aligned(element_count(piece.box.shape()) * size_of(reg.type->dtype)),
                  BoxCombine(reg.type->dtype, ReduceOp::kSum, piece.box, piece.box),
                  BoxCombine(reg.type->dtype, ReduceOp::kSum, piece.box, all)};
        part.pack.add_source(0, all);
        part.unpack.add_source(0, piece.box);
        part.pack.join_dims();
        part.unpack.join_dims();
        if (part.process == network.process()) own += part.bytes;
        parts_.push_back(std::move(part));
      }
    }
  mine_.resize(own);
}

void SharedResults::exchange(std::span<std::byte* const> results, Seconds deadline) {
  std::byte* end = mine_.data();
  for (const Part& part : parts_) {
    if (part.process != network_.process()) continue;
    part.pack.run(end, std::array<const std::byte*, 1>{results[part.result]});
    end += part.bytes;
  }
  network_.host().all_gather(mine_, gathered_, deadline);
  for (int process = 0; process < network_.size(); ++process) {
    if (process == network_.process()) continue;
    const std::byte* begin = gathered_.at(process).data();
    for (const Part& part : parts_) {
      if (part.process != process) continue;
      part.unpack.run(results[part.result], std::array<const std::byte*, 1>{begin});
      begin += part.bytes;
    }
  }
}

}  // namespace tessera
