// How many processes a launcher started together, as it told each of them.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace tessera {

struct Launched {
  std::string by;  // "Open MPI", "MPICH", "Slurm" or "torchrun"
  int member = 0;
  int members = 1;
};

/// Looks up an environment variable; null: it is not set.
using LookUp = std::function<const char*(const char* name)>;

/// Of several launchers around each other the innermost: mpirun inside of a Slurm job counts. None
/// when no launcher says anything. throws  UserError (2) when what it says makes no sense
std::optional<Launched> find_launched(const LookUp& variable);

}  // namespace tessera
