#include "tools/launch/internal/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace tessera {
namespace {

bool names_hosts(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const std::string& word) {
    return word == "-H" || word.ends_with("-host") || word.ends_with("hostfile") ||
           word.ends_with("-machinefile");
  });
}

/// Variables of Open MPI, which refuses root and more processes than cores; MPICH has no such
/// limits and ignores them.
std::vector<std::string> permissions_of_open_mpi(const std::vector<std::string>& arguments) {
  std::vector<std::string> variables;
  if (geteuid() == 0) variables = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
  if (!names_hosts(arguments)) variables.emplace_back("OMPI_MCA_rmaps_base_oversubscribe=1");
  return variables;
}

}  // namespace

Launcher make_launcher(int processes, const std::vector<std::string>& arguments) {
  const bool is_slurm_job = std::getenv("SLURM_JOB_ID") && !std::getenv("OMPI_COMM_WORLD_SIZE");
  const std::string count = std::to_string(processes);
  Launcher launcher;
  if (is_slurm_job)
    launcher = {.words = {"srun", "-n", count, "--kill-on-bad-exit=1"}, .forwards_sigterm = true};
  else
    launcher = {.words = {"mpirun", "-n", count},
                .options = {.environment = permissions_of_open_mpi(arguments),
                            .blocks_stop_signals = true}};
  launcher.words.insert(launcher.words.end(), arguments.begin(), arguments.end());
  return launcher;
}

std::vector<std::string> start_words(const std::string& program) {
  if (program.find('=') == std::string::npos) return {program};
  return {"sh", "-c", "exec \"$0\" \"$@\"", program};
}

}  // namespace tessera
