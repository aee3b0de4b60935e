// Actors on a virtual clock: what pipelining does, without hardware.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/task_actors.h"

namespace tessera {

/// What surrounds actors on a virtual clock. Times are whole units, of whatever.
struct VirtualSetting {
  /// A stream takes its actors in this order, again and again, one act at a time. None: each actor
  /// has a stream of its own.
  std::vector<std::vector<ActorId>> streams = {};
  /// By actor: registers that must have been handed back before it acts. None: of no actor.
  std::vector<std::vector<Overwrite>> overwrites = {};
  /// How long an act takes, >= 0. None: one unit.
  std::function<int64_t(ActorId)> duration = {};
  /// How long a message is under way, >= 0. None: no time.
  std::function<int64_t(const Message&)> delay = {};
  /// Nobody begins a record before all have ended the one before, as steps that are started one by
  /// one.
  bool records_meet = false;
};

/// One act of a virtual run, in [start, end).
struct VirtualAct {
  int64_t start = 0, end = 0;
  ActorId actor = 0;
  Act act;
};

struct VirtualMessage {
  Message message;
  int64_t sent = 0, arrived = 0;
};

/// What a virtual run did.
struct VirtualRun {
  std::vector<VirtualAct> acts;  // by start, then by stream
  std::vector<VirtualMessage> messages;
  int64_t duration = 0;  // units until the last act ended
  bool drained = false;  // every slot came home
};

/// Lets every actor that is in a stream act `records` times, as early as it may.
///
/// At each time first every act ends that ends then, and every message arrives that does: slots are
/// handed back and records made ready, and all of that is seen by the acts that begin at the same
/// time.
///
///   requires  the id of an actor is its place in `actors`
///   throws    InternalError that says who waits for whom when no actor can go on
VirtualRun run_virtually(const std::vector<ActorDescription>& actors, int64_t records,
                         const VirtualSetting& setting = {});

/// A line for each time, the acts by name and record: "2: a2 b1 c0".
std::string print_chart(const VirtualRun& run, const std::vector<ActorDescription>& actors);

}  // namespace tessera
