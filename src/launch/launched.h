// How many processes a launcher started, as its environment variables say.
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

/// Looks up an environment variable; null: it is not set.
using LookUp = std::function<const char*(const char* name)>;

/// Finds the innermost launcher: mpirun in a Slurm job counts, not Slurm. nullopt: no launcher.
///   throws  UserError (2) when the variables of the launcher make no sense
std::optional<Launched> find_launched(const LookUp& variable);

}  // namespace tessera
