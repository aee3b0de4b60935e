#include "simulator/clock/testing/symmetry_check.h"

#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace tessera {
namespace {

using Tracks = std::map<std::pair<Rank, std::string>, const Track*>;

Tracks tracks_of(const Simulation& simulation) {
  Tracks tracks;
  for (const Track& track : simulation.timeline.tracks) tracks[{track.rank, track.stream}] = &track;
  return tracks;
}

int64_t nanoseconds_of(Seconds time) {
  return std::llround(time.value() * 1e9);
}

std::string interval(const Span& span) {
  return "'" + span.name + "' of step " + std::to_string(span.iteration) + " [" +
         std::to_string(nanoseconds_of(span.begin)) + ", " +
         std::to_string(nanoseconds_of(span.end)) + ")";
}

std::string difference_of(const Track& whole, const Track& folded) {
  const std::string where = "rank " + std::to_string(whole.rank) + " " + whole.stream + ": ";
  if (whole.spans.size() != folded.spans.size()) return where + "other spans";
  for (size_t i = 0; i < whole.spans.size(); ++i)
    if (!(whole.spans[i] == folded.spans[i]))
      return where + interval(whole.spans[i]) + ", reduced " + interval(folded.spans[i]);
  return "";
}

bool same_times(const RankTimes& a, const RankTimes& b) {
  return a.rank == b.rank && a.compute == b.compute && a.exchange == b.exchange &&
         a.span == b.span && a.idle_in_span == b.idle_in_span && a.exposed == b.exposed;
}

std::string difference_of(const Simulation& whole, const Simulation& folded) {
  const Tracks of_whole = tracks_of(whole), of_represented = tracks_of(folded);
  std::map<Rank, Rank> representatives;
  for (const RankTimes& times : folded.ranks) representatives[times.rank] = times.representative;
  for (const auto& [key, track] : of_whole) {
    const auto found = of_represented.find({representatives.at(key.first), key.second});
    if (found == of_represented.end()) return "a stream of rank " + std::to_string(key.first);
    if (std::string text = difference_of(*track, *found->second); !text.empty()) return text;
  }
  for (size_t i = 0; i < whole.ranks.size(); ++i)
    if (!same_times(whole.ranks[i], folded.ranks.at(i)))
      return "the times of rank " + std::to_string(whole.ranks[i].rank);
  if (whole.step != folded.step)
    return "a step of " + std::to_string(nanoseconds_of(whole.step)) + " ns, reduced " +
           std::to_string(nanoseconds_of(folded.step));
  return "";
}

}  // namespace

SymmetryCheck check_symmetry(const std::shared_ptr<const TaskGraph>& graph, const Demands& demands,
                             SimulateOptions options) {
  options.uses_rank_symmetry = false;
  const Simulation whole = simulate(graph, demands, options);
  options.uses_rank_symmetry = true;
  const Simulation folded = simulate(graph, demands, options);
  std::set<Rank> simulated;
  for (const RankTimes& times : folded.ranks) simulated.insert(times.representative);
  return {difference_of(whole, folded), static_cast<int>(folded.ranks.size()),
          static_cast<int>(simulated.size())};
}

}  // namespace tessera
