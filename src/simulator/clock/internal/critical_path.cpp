#include "simulator/clock/internal/critical_path.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace tessera {
namespace {

class Chain {
 public:
  Chain(const SimulatedRanks& ranks, const SimulatedRun& run, int64_t begin)
      : ranks_(ranks), run_(run), begin_(begin) {
    std::map<std::pair<int, TaskStream>, size_t> last;  // by class and stream
    for (size_t i = 0; i < run.acts.size(); ++i) {
      const SimulatedAct& act = run.acts[i];
      const std::pair key(ranks.actors().class_of(act.actor),
                          ranks.stream_of_task(ranks.actors().task_of(act.actor)));
      const auto [found, is_first] = last.try_emplace(key, i);
      before_.push_back(is_first ? kNone : std::exchange(found->second, i));
      if (act.end >= begin) ended_[{act.actor, act.end}] = i;
    }
    for (size_t i = 0; i < run.messages.size(); ++i)
      if (run.messages[i].arrived >= begin) arrived_.emplace(run.messages[i].arrived, i);
  }

  std::vector<CriticalAct> find() const {
    std::vector<CriticalAct> chain;
    const auto ends_before = [](const SimulatedAct& a, const SimulatedAct& b) {
      return a.end < b.end;
    };
    if (run_.acts.empty()) return chain;
    std::optional<size_t> next =
        std::max_element(run_.acts.begin(), run_.acts.end(), ends_before) - run_.acts.begin();
    while (next) {
      const SimulatedAct& act = run_.acts[*next];
      chain.push_back({ranks_.representative(ranks_.actors().class_of(act.actor)),
                       ranks_.actors().task_of(act.actor), seconds(act.start), seconds(act.end)});
      next = act.start > begin_ ? predecessor(*next) : std::nullopt;
    }
    std::reverse(chain.begin(), chain.end());
    return chain;
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  /// The act whose end let the act begin; none after a barrier. Its index is smaller.
  std::optional<size_t> predecessor(size_t index) const {
    const SimulatedAct& act = run_.acts[index];
    if (const size_t before = before_[index]; before != kNone && run_.acts[before].end == act.start)
      return before;
    std::optional<size_t> released;
    const auto [first, last] = arrived_.equal_range(act.start);
    for (auto at = first; at != last; ++at) {
      const SimulatedMessage& sent = run_.messages[at->second];
      const auto sender = ended_.find({sent.message.from, sent.sent});
      if (sender == ended_.end() || sender->second >= index) continue;
      if (!lets_act(sent.message, act.actor)) continue;
      if (sent.message.kind == Message::Kind::kReady) return sender->second;
      released = sender->second;
    }
    return released;
  }

  bool lets_act(const Message& message, ActorId actor) const {
    if (message.to == actor) return true;
    if (message.kind == Message::Kind::kReady) return false;
    const std::vector<AntiDependence>& list = ranks_.overwrites(actor);
    return std::any_of(list.begin(), list.end(), [&](const AntiDependence& overwrite) {
      return overwrite.reg == message.reg;
    });
  }

  const SimulatedRanks& ranks_;
  const SimulatedRun& run_;
  const int64_t begin_;
  std::vector<size_t> before_;                           // by act: the one before on its stream
  std::map<std::pair<ActorId, int64_t>, size_t> ended_;  // acts by actor and end
  std::unordered_multimap<int64_t, size_t> arrived_;     // messages by arrival
};

}  // namespace

std::vector<CriticalAct> critical_path(const SimulatedRanks& ranks, const SimulatedRun& run,
                                       int64_t begin) {
  return Chain(ranks, run, begin).find();
}

}  // namespace tessera
