// The time of a step when steps follow each other without a barrier: the slowest cycle of the
// marked graph bounds it, and a simulation reaches the bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "simulator/clock/simulate.h"
#include "task_graph/actors/run_check.h"
#include "task_graph/tasks/testing/random_program.h"

namespace tessera {
namespace {

double end_of(const Timeline& timeline) {
  double last = 0;
  for (const Track& track : timeline.tracks)
    for (const Span& span : track.spans) last = std::max(last, span.end.value());
  return last;
}

TEST(Period, NoRunIsFasterThanTheSlowestCycleAndOnlyItsStartIsSlower) {
  constexpr int64_t kSteps = 60;
  constexpr int kMaxTokens = 8;  // more than any cycle that is the slowest has here
  for (unsigned seed = 0; seed < 40; ++seed) {
    const auto graph = random_programs::RandomProgram(seed, {}).graph();
    const TaskActors actors = find_actors(graph, ranks(*graph));
    std::mt19937 dice(seed);
    std::vector<double> times(static_cast<size_t>(actors.rank_count()) * graph->tasks.size(), 0);
    for (int rank = 0; rank < actors.rank_count(); ++rank)
      for (TaskId task : order_of(actors, rank))
        times[actors.actor_id(rank, task)] = dice() % 10 * 1e-3;
    const SlowestCycle slowest =
        find_slowest_cycle(make_marked_graph(actors, orders_of(actors)), times);
    const double all = std::accumulate(times.begin(), times.end(), 0.0);
    const auto time = [&](Rank rank, TaskId task) {
      return Seconds(times[actors.actor_id(actors.index_of(rank), task)]);
    };
    const double end =
        end_of(simulate(graph, time, {.steps = kSteps, .barrier_between_steps = false}).timeline);
    int tokens = 0;
    for (const MarkedEdge& edge : slowest.edges) tokens += edge.tokens;
    ASSERT_LE(tokens, kMaxTokens) << "seed " << seed;
    // The cycle goes around once for its tokens: of n steps all but the last, broken round
    // are surely paid.
    EXPECT_GE(end, slowest.period * static_cast<double>(kSteps - tokens) - 1e-9) << "seed " << seed;
    // Acts also wait along paths without cycles: these take at most the time of all acts once.
    EXPECT_LE(end, slowest.period * static_cast<double>(kSteps) + all + 1e-9) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tessera
