// The number of processes that a launcher started, from its environment variables.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace tessera {

struct Launched {
  std::string by;  // "Open MPI", "MPICH", "Slurm" or "torchrun"
  int process = 0;
  int count = 1;
};

/// Looks up an environment variable; returns nullptr when it is not set.
using LookUp = std::function<const char*(const char* name)>;

/// Finds the innermost launcher: in a Slurm job it is mpirun if that was used. nullopt: no
/// launcher.
///   throws  UserError (2) when the variables of the launcher are inconsistent
std::optional<Launched> find_launched(const LookUp& variable);

}  // namespace tessera
