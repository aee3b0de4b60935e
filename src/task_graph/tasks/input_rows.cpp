#include "task_graph/tasks/input_rows.h"

#include <set>

namespace tessera {
namespace {

void add_rows(const Register& reg, Rank rank, std::set<int64_t>& rows) {
  const auto coordinate = reg.attr.mesh->coordinate_of(rank);
  if (!coordinate) return;
  const std::vector<std::vector<int64_t>> indices = reg.attr.indices(reg.type->shape, *coordinate);
  // A rank whose part has no elements reads nothing of its rows.
  for (const std::vector<int64_t>& of_dim : indices)
    if (of_dim.empty()) return;
  const int64_t begin = reg.micro_batch.dim == 0 ? reg.micro_batch.begin : 0;
  for (const int64_t row : indices.front()) rows.insert(begin + row);
}

}  // namespace

std::vector<Range> rows_read(const TaskGraph& graph, std::span<const Rank> ranks) {
  std::set<int64_t> rows;
  for (const TaskInput& input : graph.inputs)
    if (!input.type.shape.empty())
      for (const Rank rank : ranks) add_rows(graph.registers[input.value], rank, rows);
  std::vector<Range> ranges;
  for (const int64_t row : rows) {
    if (ranges.empty() || ranges.back().end != row) ranges.push_back({row, row});
    ranges.back().end = row + 1;
  }
  return ranges;
}

std::vector<Range> other_rows(std::span<const Range> rows, int64_t count) {
  std::vector<Range> others;
  int64_t begin = 0;
  for (const Range& range : rows) {
    if (range.begin > begin) others.push_back({begin, range.begin});
    begin = range.end;
  }
  if (begin < count) others.push_back({begin, count});
  return others;
}

}  // namespace tessera
