#include "tools/launch/internal/launched.h"

#include <charconv>
#include <string_view>

#include "base/error.h"

namespace tessera {
namespace {

struct LauncherVariables {
  const char* by;
  const char* process;
  const char* count;
};

/// The launchers from the innermost outward. The script of a Slurm job has SLURM_PROCID too, but it
/// is not a step: it is one process.
constexpr LauncherVariables kLaunchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"torchrun", "RANK", "WORLD_SIZE"},
};

[[noreturn]] void refuse(const LauncherVariables& launcher, const std::string& why) {
  throw UserError(
      std::string(launcher.by) + " set variables that contradict each other or are no numbers", why,
      std::string("start the program by mpirun or srun, or unset ") + launcher.process + " and " +
          launcher.count,
      ExitCode::kUsage);
}

int number(const LauncherVariables& launcher, const char* name, std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0)
    refuse(launcher, std::string(name) + " is '" + std::string(text) +
                         "', which is not the number of a process");
  return value;
}

}  // namespace

std::optional<Launched> find_launched(const LookUp& variable) {
  for (const LauncherVariables& launcher : kLaunchers) {
    const char* process = variable(launcher.process);
    const char* count = variable(launcher.count);
    if (!count) continue;
    if (!process)
      refuse(launcher, std::string(launcher.count) + " is '" + count + "' but " + launcher.process +
                           " is not set");
    const Launched launched{launcher.by, number(launcher, launcher.process, process),
                            number(launcher, launcher.count, count)};
    if (launched.process >= launched.count)
      refuse(launcher, std::string(launcher.process) + " is " + process + " and " + launcher.count +
                           " is " + count);
    return launched;
  }
  return std::nullopt;
}

}  // namespace tessera
