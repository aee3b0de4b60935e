#include "planner/pipeline/device_runs.h"

#include <map>
#include <string>
#include <tuple>

#include "planner/placement/search_policy.h"

namespace tessera {
namespace {

/// A device, and its link to the next one of the run.
using Neighbour = std::tuple<std::string, double, double>;

class RunRules {
 public:
  explicit RunRules(const Deployment& deployment)
      : deployment_(deployment), ranks_(static_cast<int>(deployment.device_of_rank.size())) {
    for (Rank rank = 0; rank < ranks_; ++rank) {
      if (rank == 0 || machine(rank) != machine(rank - 1)) begins_.push_back(rank);
      places_.push_back(begins_.size() - 1);
    }
    begins_.push_back(ranks_);
  }

  bool is_run(Rank first, int size) const {
    if (ranks_ <= kSearchPolicy.few_ranks) return true;
    const bool are_many = ranks_ > kSearchPolicy.many_ranks;
    if (are_many && size < ranks_ / kSearchPolicy.many_ranks) return false;
    const size_t at = places_[first];
    const int machine_size = begins_[at + 1] - begins_[at];
    if (first + size <= begins_[at + 1])
      return machine_size % size == 0 && (first - begins_[at]) % size == 0;
    if (first != begins_[at]) return false;
    int machines = 1;
    while (begins_[at + machines] < first + size) ++machines;
    const int all = static_cast<int>(begins_.size()) - 1;
    return begins_[at + machines] == first + size && all % machines == 0 &&
           (!are_many || at % machines == 0);
  }

  std::vector<Neighbour> neighbours(Rank first, int size) const {
    std::vector<Neighbour> list;
    for (Rank rank = first; rank < first + size; ++rank) {
      const Rank next = rank + 1 < first + size ? rank + 1 : first;
      const LinkCost link =
          deployment_.cluster->link(deployment_.device(rank), deployment_.device(next));
      list.emplace_back(deployment_.type(rank).name, link.latency.value(), link.bytes_per_second);
    }
    return list;
  }

 private:
  int machine(Rank rank) const { return deployment_.cluster->machine(deployment_.device(rank)); }

  const Deployment& deployment_;
  const int ranks_;
  std::vector<Rank> begins_;    // of machines, and the end
  std::vector<size_t> places_;  // by rank: of its machine among them
};

}  // namespace

DeviceRuns::DeviceRuns(const Deployment& deployment)
    : ranks_(static_cast<int>(deployment.device_of_rank.size())),
      kinds_(ranks_ * (ranks_ + 1), kNone),
      sizes_at_(ranks_) {
  const RunRules rules(deployment);
  std::map<std::vector<Neighbour>, int> known;
  for (Rank first = 0; first < ranks_; ++first)
    for (int size = 1; first + size <= ranks_; ++size) {
      if (!rules.is_run(first, size)) continue;
      const auto [at, is_new] =
          known.emplace(rules.neighbours(first, size), static_cast<int>(firsts_.size()));
      if (is_new) {
        firsts_.push_back(first);
        sizes_.push_back(size);
      }
      kinds_[first * (ranks_ + 1) + size] = at->second;
      sizes_at_[first].push_back(size);
    }
}

}  // namespace tessera
