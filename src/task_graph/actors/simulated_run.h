// Actors on a simulated clock: it shows what pipelining does, without hardware.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "task_graph/actors/fair_rates.h"
#include "task_graph/actors/task_actors.h"

namespace tessera {

/// What an act takes: first a fixed time passes (a launch, a latency), then all flows move at the
/// same time. The act ends when the last flow ends.
struct ActDemand {
  int64_t fixed = 0;  // nanoseconds, >= 0
  std::vector<Flow> flows;

  bool operator==(const ActDemand&) const = default;
};

/// The streams, times and dependences of a simulation. Times are whole units of the caller's
/// choice.
struct SimulatedSetting {
  /// A stream executes its actors in this order, in every iteration, one act at a time. Empty: each
  /// actor has a stream of its own.
  /// An actor is in one stream; one that is named several times acts as often in an iteration.
  std::vector<std::vector<ActorId>> streams = {};
  /// Executes the actors of a stream in no fixed order: of those that may act, the first one in the
  /// list acts. Then credits alone (free slots) decide the order.
  bool is_ordered = true;
  /// By actor, for streams that are not ordered: its acts in an iteration. Empty: one.
  std::vector<int64_t> acts_per_iteration = {};
  /// By actor: registers that must have been released before it acts. Empty: none.
  std::vector<std::vector<AntiDependence>> overwrites = {};
  /// The duration of an act, >= 0. Without it an act takes one unit.
  std::function<int64_t(ActorId)> duration = {};
  /// What an act takes, instead of `duration`; then a unit of time is a nanosecond. The demand
  /// stays valid until the act ends.
  std::function<const ActDemand&(ActorId)> demand = {};
  /// What the flows of all demands share.
  IndexedVector<ResourceId, Resource> resources = {};
  /// With `demand`: by actor and act, the factor, > 0, of the fixed time and of the flows over
  /// cores. Empty: 1.
  std::function<double(ActorId, int64_t)> slowdown = {};
  /// The time that a message is in flight, >= 0. Without it a message takes no time.
  std::function<int64_t(const Message&)> delay = {};
  /// No stream begins an iteration before all streams have ended the previous one.
  bool barrier_between_iterations = false;
  /// Does the result have the slots of the acts and the messages?
  bool records_messages = true;
};

/// One act of a simulated run, in [start, end).
struct SimulatedAct {
  int64_t start = 0, end = 0;
  ActorId actor = 0;
  Act act;
};

struct SimulatedMessage {
  Message message;
  int64_t sent = 0, arrived = 0;
};

/// The result of a simulation.
struct SimulatedRun {
  std::vector<SimulatedAct> acts;  // by start, then by stream
  std::vector<SimulatedMessage> messages;
  int64_t duration = 0;       // units until the last act ended
  bool is_quiescent = false;  // every slot was released
};

/// Simulates `iterations` iterations of every stream. Each act begins as early as
/// possible. At each time, the acts that end and the messages that arrive at that time are handled
/// first; acts that begin at the same time see their results.
///
///   requires  the id of an actor is its index in `actors`
///   throws    InternalError that names what each actor waits for when no actor can act
///   time      O(log) of the events at hand for each act and message; a flow that begins or ends
///             costs as FairRates::update
SimulatedRun simulate_actors(std::vector<ActorDescription> actors, int64_t iterations,
                             const SimulatedSetting& setting = {});

/// The acts by time, name and iteration, with one line for each time: "2: a2 b1 c0".
std::string print_chart(const SimulatedRun& run, const std::vector<ActorDescription>& actors);

}  // namespace tessera
