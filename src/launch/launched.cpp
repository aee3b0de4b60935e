#include "launch/launched.h"

#include <charconv>
#include <string_view>

#include "base/error.h"

namespace tessera {
namespace {

struct LauncherVariables {
  const char* by;
  const char* member;
  const char* members;
};

/// From the innermost. A Slurm job's own script has SLURM_PROCID too, but no step: it is one
/// process.
constexpr LauncherVariables kLaunchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"torchrun", "RANK", "WORLD_SIZE"},
};

[[noreturn]] void refuse(const LauncherVariables& launcher, const std::string& why) {
  throw UserError(std::string(launcher.by) + " says nonsense about its processes", why,
                  std::string("start the program by mpirun or srun, or unset ") + launcher.member +
                      " and " + launcher.members,
                  ExitCode::kUsage);
}

int number(const LauncherVariables& launcher, const char* name, std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0)
    refuse(launcher,
           std::string(name) + " is '" + std::string(text) + "', which is no number of a process");
  return value;
}

}  // namespace

std::optional<Launched> find_launched(const LookUp& variable) {
  for (const LauncherVariables& launcher : kLaunchers) {
    const char* member = variable(launcher.member);
    const char* members = variable(launcher.members);
    if (!members) continue;
    if (!member)
      refuse(launcher, std::string(launcher.members) + " is '" + members + "' but " +
                           launcher.member + " is not set");
    const Launched launched{launcher.by, number(launcher, launcher.member, member),
                            number(launcher, launcher.members, members)};
    if (launched.member >= launched.members)
      refuse(launcher, std::string(launcher.member) + " is " + member + " and " + launcher.members +
                           " is " + members);
    return launched;
  }
  return std::nullopt;
}

}  // namespace tessera
