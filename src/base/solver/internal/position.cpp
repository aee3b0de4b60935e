#include "base/solver/internal/position.h"

#include <algorithm>

#include "base/solver/internal/min_plus.h"

namespace tessera::solver {

SlackOverTime::SlackOverTime(std::vector<Usage> slack) : slack_(std::move(slack)) {
  const int64_t blocks = (slack_.size() + kBlock - 1) / kBlock;
  added_.assign(blocks, 0);
  min_.assign(blocks, 0);
  for (int32_t block = 0; block < blocks; ++block) settle(block);
}

void SlackOverTime::settle(int32_t block) {
  const auto begin = slack_.begin() + int64_t{block} * kBlock;
  const auto end = slack_.begin() + std::min<int64_t>(int64_t{block + 1} * kBlock, moments());
  min_[block] = *std::min_element(begin, end) + added_[block];
}

void SlackOverTime::add(int32_t begin, int32_t end, Usage change) {
  while (begin < end) {
    const int32_t block = begin / kBlock;
    const int32_t stop = std::min(end, (block + 1) * kBlock);
    if (begin == block * kBlock && (stop - begin == kBlock || stop == moments())) {
      added_[block] += change;
      min_[block] += change;
    } else {
      for (int32_t m = begin; m < stop; ++m) slack_[m] += change;
      settle(block);
    }
    begin = stop;
  }
}

Usage SlackOverTime::smallest(int32_t begin, int32_t end) const {
  Usage smallest = kPlenty;
  while (begin < end) {
    const int32_t block = begin / kBlock;
    const int32_t stop = std::min(end, (block + 1) * kBlock);
    if (stop - begin == kBlock)
      smallest = std::min(smallest, min_[block]);
    else
      for (int32_t m = begin; m < stop; ++m) smallest = std::min(smallest, at(m));
    begin = stop;
  }
  return smallest;
}

Usage SlackOverTime::smallest() const {
  Usage smallest = kPlenty;
  for (const Usage of_block : min_) smallest = std::min(smallest, of_block);
  return smallest;
}

int32_t SlackOverTime::tightest() const {
  if (slack_.empty()) return -1;
  const auto block = index_of_min(min_);
  for (int32_t m = block * kBlock; m < moments(); ++m)
    if (at(m) == min_[block]) return m;
  return -1;
}

double SlackOverTime::missing() const {
  double sum = 0;
  for (int32_t block = 0; block < std::ssize(min_); ++block) {
    if (min_[block] >= 0) continue;
    const auto begin = block * kBlock;
    for (int32_t m = begin; m < std::min(begin + kBlock, moments()); ++m)
      sum -= to_double(std::min<Usage>(at(m), 0));
  }
  return sum;
}

Position::Position(const Core& core, Assignment assignment)
    : core_(&core), assignment_(std::move(assignment)), slack_(core.limits) {
  cost_ = core.constant;
  for (int32_t i = 0; i < core.nodes(); ++i) count(core.costs_of(i)[assignment_[i]], 1);
  for (const Core::Edge& edge : core.edges)
    count(
        core.row(edge.rows_of_a, assignment_[edge.a], core.strategies(edge.b))[assignment_[edge.b]],
        1);
  std::vector<Usage> slack(core.limits.size() + 1, 0);
  for (int32_t i = 0; i < core.nodes(); ++i)
    for (const Core::Piece& piece : core.pieces(i)) {
      slack[piece.begin] -= core.usages(piece)[assignment_[i]];
      slack[piece.end] += core.usages(piece)[assignment_[i]];
    }
  for (size_t m = 1; m < slack.size(); ++m) slack[m] += slack[m - 1];
  slack.pop_back();
  for (size_t m = 0; m < slack.size(); ++m) slack[m] += core.limits[m];
  slack_ = SlackOverTime(std::move(slack));
}

void Position::count(double cost, int sign) {
  if (cost >= kNever)
    forbidden_ += sign;
  else
    cost_ += sign * cost;
}

void Position::set(int32_t node, int32_t strategy) {
  const int32_t before = assignment_[node];
  if (before == strategy) return;
  count(core_->costs_of(node)[before], -1);
  count(core_->costs_of(node)[strategy], 1);
  for (const Core::Neighbour& neighbour : core_->neighbours(node)) {
    const double* row =
        core_->row(neighbour.their_rows, assignment_[neighbour.node], core_->strategies(node));
    count(row[before], -1);
    count(row[strategy], 1);
  }
  for (const Core::Piece& piece : core_->pieces(node)) {
    const Usage change = core_->usages(piece)[strategy] - core_->usages(piece)[before];
    if (change != 0) slack_.add(piece.begin, piece.end, -change);
  }
  assignment_[node] = strategy;
}

void Position::costs_here(int32_t node, std::vector<double>& costs) const {
  const std::span<const double> own = core_->costs_of(node);
  costs.assign(own.begin(), own.end());
  for (const Core::Neighbour& neighbour : core_->neighbours(node))
    add_row(costs.data(),
            core_->row(neighbour.their_rows, assignment_[neighbour.node], count_of(own)),
            count_of(own));
}

}  // namespace tessera::solver
