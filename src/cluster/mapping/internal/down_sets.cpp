#include "cluster/mapping/internal/down_sets.h"

#include <algorithm>
#include <limits>

#include "cluster/mapping/internal/grid.h"

namespace tessera {
namespace {

constexpr double kNoValue = -std::numeric_limits<double>::infinity();
/// Steps of the dynamic program over all axes.
constexpr int64_t kMaxSteps = 6'000'000;

/// By number of ranks, from 0 on: the most sends inside.
using Most = std::vector<double>;

double sends_of_line(const GridAxis& axis, int k) {
  return k == 0 ? 0 : k * sends_a_rank(axis, k);
}

Most of_line(const GridAxis& axis, double weight, int size) {
  Most largest;
  for (int k = 0; k <= std::min(axis.size, size); ++k)
    largest.push_back(weight * sends_of_line(axis, k));
  return largest;
}

/// The most sends of sets whose slices along the axis keep at most `slice`.
Most stacked(const Most& slice, const GridAxis& axis, double weight, int size) {
  const int widest = static_cast<int>(slice.size()) - 1, slices = std::min(axis.size, size);
  const int ranks = static_cast<int>(std::min<int64_t>(int64_t{widest} * axis.size, size));
  const size_t stride = widest + 1;
  // By ranks and the size of the largest slice: the most of this slice and those after it.
  std::vector<double> after((ranks + 1) * stride, kNoValue), now(after.size());
  std::fill(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(stride), 0.0);
  for (int r = slices; r >= 1; --r) {
    const double joined = weight * (sends_of_line(axis, r) - sends_of_line(axis, r - 1));
    for (int m = 0; m <= ranks; ++m) {
      double* row = now.data() + m * stride;
      row[0] = m == 0 ? 0 : kNoValue;
      for (int k = 1; k <= widest; ++k) {
        row[k] = row[k - 1];
        if (k <= m) row[k] = std::max(row[k], slice[k] + joined * k + after[(m - k) * stride + k]);
      }
    }
    std::swap(after, now);
  }
  Most largest;
  for (int m = 0; m <= ranks; ++m) largest.push_back(after[m * stride + widest]);
  return largest;
}

int64_t steps_of(const std::vector<const GridAxis*>& axes, int size) {
  int64_t steps = 0, ranks = axes.front()->size;
  for (size_t i = 1; i < axes.size(); ++i) {
    const int64_t widest = std::min<int64_t>(ranks, size);
    ranks *= axes[i]->size;
    steps += widest * std::min<int64_t>(axes[i]->size, size) * std::min<int64_t>(ranks, size);
  }
  return steps;
}

}  // namespace

std::optional<double> max_sends_of_set(const RankGrid& grid, const std::vector<double>& weight,
                                       int size) {
  std::vector<const GridAxis*> axes;
  for (const GridAxis& axis : grid.axes)
    if (axis.size > 1) axes.push_back(&axis);
  if (axes.empty()) return 0;
  // The longest axis last, so that slices are small.
  std::stable_sort(axes.begin(), axes.end(),
                   [](const GridAxis* a, const GridAxis* b) { return a->size < b->size; });
  if (steps_of(axes, size) > kMaxSteps) return std::nullopt;
  const auto weight_of = [&](const GridAxis* axis) { return weight[axis - grid.axes.data()]; };
  Most largest = of_line(*axes[0], weight_of(axes[0]), size);
  for (size_t i = 1; i < axes.size(); ++i)
    largest = stacked(largest, *axes[i], weight_of(axes[i]), size);
  return size < std::ssize(largest) ? std::optional(largest[size]) : std::nullopt;
}

}  // namespace tessera
