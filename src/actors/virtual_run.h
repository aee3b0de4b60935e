// Actors on a virtual clock, each act one unit of time and each actor on a stream of its own: what pipelining does, without hardware.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/actor.h"

namespace tessera {

/// One act of a virtual run. It takes the unit [start, start + 1).
struct VirtualAct {
  int64_t start = 0;
  ActorId actor = 0;
  Act act;
};

/// What a virtual run did.
struct VirtualRun {
  std::vector<VirtualAct> acts;  // by time, then by actor
  int64_t duration = 0;          // units until the last act ended
  bool drained = false;          // every slot came home
};

/// Lets every actor act `records` times, as early as it may.
///
/// Messages take no time. At each time first every act ends that ends then: it hands its slots back and makes its records ready, and
/// all of that is seen by the acts that begin at the same time.
///
///   requires  the id of an actor is its place in `actors`
///   throws    InternalError that says who waits for whom when no actor can go on
VirtualRun run_virtually(const std::vector<ActorDescription>& actors, int64_t records);

/// A line for each time, the acts by name and record: "2: a2 b1 c0".
std::string print_chart(const VirtualRun& run, const std::vector<ActorDescription>& actors);

}  // namespace tessera
