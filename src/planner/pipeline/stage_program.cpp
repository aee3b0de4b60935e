#include "planner/pipeline/stage_program.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace tessera {
namespace {

constexpr double kNoTime = std::numeric_limits<double>::infinity();

/// A stage of some units on a run of some kind.
struct Offer {
  int stage_sharding = -1;
  UnitCost cost;
  double chain = kNoTime;    // seconds that it adds to those of one micro-batch
  double busiest = kNoTime;  // seconds of a step beside those of the first micro-batch
};

/// Keeps of several stage shardings those that no other one replaces, in ascending order of the
/// chain.
std::vector<Offer> front_of(std::vector<Offer> offers) {
  std::ranges::stable_sort(offers, {}, &Offer::chain);
  std::vector<Offer> front;
  for (Offer& offer : offers) {
    const bool is_needed = std::ranges::all_of(front, [&](const Offer& faster) {
      return faster.busiest > offer.busiest || faster.cost.variables > offer.cost.variables ||
             faster.cost.kept > offer.cost.kept || faster.cost.passing > offer.cost.passing;
    });
    if (is_needed && offer.busiest < kNoTime) front.push_back(std::move(offer));
  }
  return front;
}

double chain_seconds(const UnitCost& cost, ChainOf chain) {
  return chain == ChainOf::kWholeBackward ? cost.micro_batch() : cost.forward + cost.input_gradient;
}

/// The stages of least time for one number of micro-batches.
class StageCountProgram {
 public:
  StageCountProgram(const LayerSequence& sequence, const RunCapacities& capacities,
                    const SegmentCosts& costs, const StageSearchOptions& options,
                    int64_t micro_batches, ChainOf chain, const EqualStages& equal)
      : costs_(costs),
        runs_(capacities.runs),
        capacities_(capacities),
        equal_(equal),
        micro_batches_(micro_batches),
        chain_(chain),
        units_(sequence.units()),
        allowed_(options.ranks),
        chain_weights_(options.chain_weights),
        effort_(options.effort),
        ranks_(runs_.ranks()),
        fewest_(equal.stages.value_or(options.stages.value_or(options.min_stages))),
        max_(std::min(
            {equal.stages.value_or(options.stages.value_or(options.max_stages)), ranks_, units_})),
        places_(ranks_ + 1, -1) {
    for (int unit = 0; unit < units_; ++unit)
      last_end_.push_back(last_end(options.boundaries, unit, units_));
    for (int kind = 0; kind < runs_.kinds(); ++kind) add_offers(kind);
    for (Rank rank = 0; rank < ranks_; rank += equal.stages ? ranks_ / *equal.stages : 1)
      if (!runs_.sizes_at(rank).empty()) add_place(rank);
    add_place(ranks_);
    entries_.resize((max_ + 1) * (units_ + 1) * firsts_.size());
    for (size_t place = 0; place + 1 < firsts_.size(); ++place) add_runs(firsts_[place]);
    tables_.resize(groups_.size());
  }

  std::vector<PipelineChoice> results() {
    if (max_ < fewest_ || !solve(kNoTime)) return {};
    double smallest = 0, largest = busiest();
    for (int i = 0; i < effort_.bisections; ++i) {
      const double middle = (smallest + largest) / 2;
      (solve(middle) ? largest : smallest) = middle;
    }
    std::vector<PipelineChoice> found;
    for (const double slack : effort_.slacks) {
      solve(slack * largest);
      for (int stages = fewest_; stages <= max_; ++stages)
        if (at(stages, 0, 0).seconds < kNoTime) found.push_back(choice(stages));
    }
    return found;
  }

 private:
  /// The shortest chain of n stages from a unit and a rank to the end.
  struct Entry {
    double seconds = kNoTime;
    int end_unit = 0, size = 0;
    const Offer* offer = nullptr;
  };

  /// The runs of one kind with one capacity, which have the same offers.
  struct RunGroup {
    int kind = 0;
    double capacity = 0;
    auto operator<=>(const RunGroup&) const = default;
  };
  struct Run {
    int size = 0, group = 0;
  };
  /// The offers of a group of runs for one number of stages and one first unit.
  struct Table {
    int begin = 0, end = 0;            // the end units of stages that it has
    std::vector<const Offer*> offers;  // by end unit; nullptr: none
  };

  /// Those of neighbouring units lie side by side.
  Entry& at(int stages, int unit, Rank rank) {
    return entries_[(stages * firsts_.size() + places_[rank]) * (units_ + 1) + unit];
  }
  void add_place(Rank rank) {
    places_[rank] = static_cast<int>(firsts_.size());
    firsts_.push_back(rank);
  }
  /// The runs from `rank` on that a stage may have.
  ///   requires  all places are known
  void add_runs(Rank rank) {
    std::vector<Run>& runs = runs_at_.emplace_back();
    for (const int size : runs_.sizes_at(rank)) {
      if (places_[rank + size] < 0 || equal_.stages.value_or(1) * size > ranks_) continue;
      const RunGroup group{runs_.kind(rank, size), capacities_.at(costs_, rank, size)};
      const auto next = static_cast<int>(groups_.size());
      runs.push_back({size, groups_.try_emplace(group, next).first->second});
    }
  }
  const std::vector<Offer>& offers(int kind, int first, int end) const {
    return offers_[(kind * (units_ + 1) + first) * (units_ + 1) + end];
  }

  void add_offers(int kind) {
    offers_.resize((kind + 1) * (units_ + 1) * (units_ + 1));
    for (int first = 0; first < units_; ++first) {
      const double weight = chain_weights_.empty() ? 1 : chain_weights_[first];
      for (int end = first + 1; end <= units_; ++end) {
        std::vector<Offer> all;
        for (int stage_sharding : costs_.stage_shardings(kind)) {
          if (equal_.stage_sharding.value_or(stage_sharding) != stage_sharding) continue;
          const UnitCost cost = costs_.price(kind, stage_sharding, first, end);
          all.push_back({stage_sharding, cost, weight * chain_seconds(cost, chain_),
                         static_cast<double>(micro_batches_ - 1) * cost.micro_batch() + cost.once});
        }
        offers_[(kind * (units_ + 1) + first) * (units_ + 1) + end] = front_of(std::move(all));
      }
    }
  }

  /// The one of the shortest chain within the limit that fits; nullptr when there is none.
  const Offer* best_offer(const std::vector<Offer>& offers, double capacity, int stages,
                          double limit) const {
    const auto in_flight = static_cast<double>(std::min<int64_t>(micro_batches_, stages));
    for (const Offer& offer : offers) {
      if (offer.busiest > limit) continue;
      if (memory_of(offer.cost, in_flight) <= capacity) return &offer;
    }
    return nullptr;
  }

  /// False when stages of more units from `first` on take too much time or too many bytes, too:
  /// what front_of() leaves out needs as much of these.
  bool may_have_more(const std::vector<Offer>& offers, double capacity, int stages,
                     double limit) const {
    const auto in_flight = static_cast<double>(std::min<int64_t>(micro_batches_, stages));
    return std::ranges::any_of(offers, [&](const Offer& offer) {
      return offer.busiest <= limit &&
             offer.cost.variables + in_flight * offer.cost.kept <= capacity;
    });
  }

  /// Finds all entries. Returns whether there is a pipeline of all units and ranks.
  bool solve(double limit) {
    std::ranges::fill(entries_, Entry{});
    at(0, units_, ranks_).seconds = 0;
    bool is_possible = false;
    for (int stages = 1; stages <= max_; ++stages) {
      for (int unit = units_ - stages; unit >= 0; --unit) {
        for (const auto& [group, index] : groups_)
          fill_table(group, stages, unit, limit, tables_[index]);
        for (size_t place = 0; place + 1 < firsts_.size(); ++place) find_entry(stages, unit, place);
      }
      is_possible |= stages >= fewest_ && at(stages, 0, 0).seconds < kNoTime;
    }
    return is_possible;
  }

  /// Up to where stages of more units take too much time or too many bytes, too.
  void fill_table(const RunGroup& group, int stages, int unit, double limit, Table& table) {
    table.begin = table.end = stages == 1 ? units_ : unit + 1;
    table.offers.clear();
    const int last = std::min(units_ - stages + 1, last_end_[unit]);
    for (; table.end <= last; ++table.end) {
      const std::vector<Offer>& stage_shardings = offers(group.kind, unit, table.end);
      const Offer* offer = best_offer(stage_shardings, group.capacity, stages, limit);
      if (!offer && !may_have_more(stage_shardings, group.capacity, stages, limit)) return;
      table.offers.push_back(offer);
    }
  }

  void find_entry(int stages, int unit, size_t place) {
    const Rank rank = firsts_[place];
    Entry best;
    for (const auto& [size, group] : runs_at_[place]) {
      const Table& table = tables_[group];
      const Entry* rests = &at(stages - 1, 0, rank + size);  // by unit
      const int last = std::min(table.end - 1, last_end(allowed_, unit, rank, size, units_));
      for (int end = table.begin; end <= last; ++end) {
        const double rest = rests[end].seconds;
        const Offer* offer = table.offers[end - table.begin];
        if (!offer || rest + offer->chain >= best.seconds) continue;  // transfers only add to it
        const double seconds =
            rest + offer->chain + 2 * costs_.transfer(offer->stage_sharding, unit, rank);
        if (seconds < best.seconds) best = {seconds, end, size, offer};
      }
    }
    at(stages, unit, rank) = best;
  }

  /// Of the pipelines that solve() found last, the time of the busiest stage of one of them.
  double busiest() {
    double smallest = kNoTime;
    for (int stages = fewest_; stages <= max_; ++stages) {
      double largest = 0;
      if (at(stages, 0, 0).seconds == kNoTime) continue;
      visit(stages, [&](int, Rank, const Entry& entry) {
        largest = std::max(largest, entry.offer->busiest);
      });
      smallest = std::min(smallest, largest);
    }
    return smallest;
  }

  template <class Visit>
  void visit(int stages, const Visit& visit_stage) {
    int unit = 0;
    for (Rank rank = 0; stages > 0; --stages) {
      const Entry& entry = at(stages, unit, rank);
      visit_stage(unit, rank, entry);
      unit = entry.end_unit;
      rank += entry.size;
    }
  }

  PipelineChoice choice(int stages) {
    PipelineChoice choice;
    choice.micro_batches = micro_batches_;
    double largest = 0;
    visit(stages, [&](int unit, Rank rank, const Entry& entry) {
      const int stage_sharding = entry.offer->stage_sharding;
      choice.stages.push_back({unit, entry.end_unit, rank, stage_sharding, entry.offer->cost,
                               costs_.transfer(stage_sharding, unit, rank),
                               capacities_.at(costs_, rank, entry.size)});
      largest = std::max(largest, entry.offer->busiest);
    });
    choice.seconds = at(stages, 0, 0).seconds + largest;
    return choice;
  }

  const SegmentCosts& costs_;
  const DeviceRuns& runs_;
  const RunCapacities capacities_;
  const EqualStages equal_;
  const int64_t micro_batches_;
  const ChainOf chain_;
  const int units_;
  const std::vector<UnitRanks>& allowed_;
  const std::vector<double>& chain_weights_;
  const StageSearchEffort& effort_;
  const int ranks_;
  const int fewest_, max_;                  // stages
  std::vector<int> last_end_;               // by unit, of a stage that begins there
  std::vector<int> places_;                 // by rank: in firsts_, -1 when no run begins there
  std::vector<Rank> firsts_;                // where runs begin, and the end
  std::vector<std::vector<Offer>> offers_;  // by kind, first and end
  std::map<RunGroup, int> groups_;          // with their indices in tables_
  std::vector<Table> tables_;
  std::vector<std::vector<Run>> runs_at_;  // by place, except for the end
  std::vector<Entry> entries_;
};

}  // namespace

double memory_of(const UnitCost& cost, double in_flight) {
  return cost.variables + std::max(in_flight * cost.kept + cost.passing, cost.updating);
}

int last_end(const std::vector<int>& boundaries, int unit, int units) {
  const auto next = std::ranges::upper_bound(boundaries, unit);
  return next == boundaries.end() ? units : *next;
}

int last_end(const std::vector<UnitRanks>& allowed, int unit, Rank first, int size, int units) {
  int end = units;
  for (const UnitRanks& each : allowed)
    if (each.unit >= unit && each.unit < end && !each.allows_all(first, size)) end = each.unit;
  return end;
}

double RunCapacities::at(const SegmentCosts& costs, Rank first, int size) const {
  const double all = costs.capacity(runs.kind(first, size));
  if (reserved_memory.empty()) return all;
  const auto begin = reserved_memory.begin() + first;
  return all - *std::max_element(begin, begin + size);
}

std::vector<PipelineChoice> shortest_chains(const LayerSequence& sequence,
                                            const RunCapacities& capacities,
                                            const SegmentCosts& costs,
                                            const StageSearchOptions& options,
                                            int64_t micro_batches, ChainOf chain,
                                            const EqualStages& equal) {
  return StageCountProgram(sequence, capacities, costs, options, micro_batches, chain, equal)
      .results();
}

}  // namespace tessera
