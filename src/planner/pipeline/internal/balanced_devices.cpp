#include "planner/pipeline/internal/balanced_devices.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "planner/placement/search_policy.h"

namespace tessera {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double all_seconds(const SplitStages& stages) {
  double sum = 0;
  for (const std::vector<double>& each : stages.before) sum += each.back();
  return sum;
}

int units_of(const SplitStages& stages) {
  return static_cast<int>(stages.before.front().size()) - 1;
}

/// Some stages after each other, and their units.
struct Section {
  int first_stage = 0, end_stage = 0, first_unit = 0;
};

/// Of the stages of a section that end with any unit, those of which the longest is shortest.
class SectionProgram {
 public:
  SectionProgram(const SplitStages& stages, const Section& section)
      : rows_(section.end_stage - section.first_stage + 1, Row(units_of(stages) + 1)) {
    rows_[0][section.first_unit].longest = 0;
    for (int stage = section.first_stage; stage < section.end_stage; ++stage) {
      const Row& ends = rows_[stage - section.first_stage];
      for (int unit = section.first_unit; unit < units_of(stages); ++unit)
        if (ends[unit].longest < kNever)
          extend(stages, stage, unit, ends[unit].longest, rows_[stage - section.first_stage + 1]);
    }
  }

  double longest(int end_unit) const { return rows_.back()[end_unit].longest; }
  /// Empty where there are none.
  std::vector<int> ends(int end_unit) const {
    std::vector<int> list;
    if (longest(end_unit) == kNever) return list;
    for (size_t row = rows_.size() - 1; row > 0; --row) {
      list.push_back(end_unit);
      end_unit = rows_[row][end_unit].first;
    }
    std::ranges::reverse(list);
    return list;
  }

 private:
  struct Entry {
    double longest = kNever;
    int first = 0;  // where the last stage begins
  };
  using Row = std::vector<Entry>;  // by end unit

  static void extend(const SplitStages& stages, int stage, int first, double longest, Row& next) {
    const std::vector<double>& before = stages.before[stage];
    const int last = stages.last_end(stage, first);
    for (int end = first + 1; end <= last; ++end) {
      const double largest = std::max(longest, before[end] - before[first]);
      if (largest < next[end].longest) next[end] = {largest, first};
    }
  }

  std::vector<Row> rows_;  // after n stages
};

/// For a limit of the time of each device of a V: where the second stages of the devices 0 to d
/// begin when the first ones end with some unit. The earlier they begin, the less is left for the
/// other devices, so of all cuts the earliest is enough.
class VProgram {
 public:
  explicit VProgram(const SplitStages& stages)
      : before_(stages.before),
        devices_(static_cast<int>(stages.before.size()) / 2),
        units_(units_of(stages)) {}

  std::vector<int> within(double limit) const {
    Table table(devices_ + 1, std::vector<Reached>(units_ + 1));
    table[0][0] = {units_, 0};
    for (int device = 0; device < devices_; ++device)
      for (int first = 0; first < units_; ++first)
        if (table[device][first].second != kNone)
          extend(device, first, limit, table[device][first].second, table[device + 1]);
    for (int end = 1; end < units_; ++end)
      if (table[devices_][end].second == end) return ends_of(table, end);
    return {};
  }

 private:
  /// Behind some devices, by the end of their first stages.
  struct Reached {
    int second = kNone;  // where their second stages begin
    int first = kNone;   // where the first stage of the last one of them begins
  };
  using Table = std::vector<std::vector<Reached>>;
  static constexpr int kNone = -1;

  int stage_of_second(int device) const { return 2 * devices_ - 1 - device; }

  /// The first stages begin with `first`, and the second ones end with `second`.
  void extend(int device, int first, double limit, int second, std::vector<Reached>& next) const {
    const std::vector<double>& before = before_[device];
    const std::vector<double>& before_second = before_[stage_of_second(device)];
    const int inside = 2 * (devices_ - 1 - device);  // stages
    for (int end = first + 1; end + inside < second; ++end) {
      const double left = limit - (before[end] - before[first]);
      if (left < 0) return;
      const auto found = std::lower_bound(before_second.begin(), before_second.end(),
                                          before_second[second] - left);
      const int begin = std::max(static_cast<int>(found - before_second.begin()), end + inside);
      if (begin < second && (next[end].second == kNone || begin < next[end].second))
        next[end] = {begin, first};
    }
  }

  std::vector<int> ends_of(const Table& table, int end) const {
    std::vector<int> ends(2 * devices_);
    for (int device = devices_ - 1; device >= 0; --device) {
      const int first = table[device + 1][end].first;
      ends[device] = end;
      ends[stage_of_second(device)] = table[device][first].second;
      end = first;
    }
    return ends;
  }

  const std::vector<std::vector<double>>& before_;
  const int devices_, units_;
};

}  // namespace

std::vector<int> shortest_stage(const SplitStages& stages) {
  const int count = static_cast<int>(stages.before.size());
  return SectionProgram(stages, {0, count, 0}).ends(units_of(stages));
}

std::vector<int> shortest_stage_of_both_rounds(const SplitStages& stages) {
  const int count = static_cast<int>(stages.before.size()), units = units_of(stages);
  const SectionProgram first(stages, {0, count / 2, 0});
  double smallest = kNever;
  std::vector<int> ends;
  for (int middle = count / 2; middle <= units - count / 2; ++middle) {
    if (first.longest(middle) >= smallest) continue;
    const SectionProgram second(stages, {count / 2, count, middle});
    if (first.longest(middle) + second.longest(units) >= smallest) continue;
    smallest = first.longest(middle) + second.longest(units);
    ends = first.ends(middle);
    std::ranges::move(second.ends(units), std::back_inserter(ends));
  }
  return ends;
}

std::vector<int> shortest_device_in_v(const SplitStages& stages) {
  if (units_of(stages) < std::ssize(stages.before)) return {};
  const VProgram program(stages);
  double smallest = 0, largest = all_seconds(stages);
  std::vector<int> ends = program.within(largest);
  for (int i = 0; i < kSearchPolicy.bisections && !ends.empty(); ++i) {
    const double limit = (smallest + largest) / 2;
    std::vector<int> found = program.within(limit);
    (found.empty() ? smallest : largest) = limit;
    if (!found.empty()) ends = std::move(found);
  }
  return ends;
}

}  // namespace tessera
