#include "tools/launch/processes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text/count_text.h"
#include "runtime/comm/liveness.h"
#include "runtime/comm/network.h"
#include "runtime/comm/on_all_processes.h"
#include "runtime/mpi/mpi_process.h"
#include "tools/launch/internal/rank_log.h"
#include "tools/launch/internal/start_watch.h"

namespace tessera {
namespace {

/// The time that the other processes wait for the leader to end them.
constexpr auto kWaitForLeader = std::chrono::seconds(5);

UserError lost_error(const LostProcess& lost, Seconds deadline) {
  const std::string what = fmt::format("rank {} was lost", lost.process);
  const std::string subject = fmt::format("its process {} on host {} ", lost.pid, lost.host);
  return {what,
          subject + (lost.has_ended ? "ended without a message"
                                    : "has sent no heartbeat for " + to_text(deadline)),
          "look for what killed or stopped it, such as the memory limit of the machine; then go on "
          "from the last checkpoint by --resume",
          ExitCode::kRankLost};
}

}  // namespace

Processes::Processes()
    : launched_(find_launched([](const char* name) -> const char* { return std::getenv(name); })) {
  if (const char* folder = std::getenv(kLogFolderVariable))
    log_ = std::make_unique<RankLog>(folder, launched_ ? launched_->process : 0, is_leader());
  if (!is_leader()) set_silent(true);
}

Processes::~Processes() = default;

std::string Processes::stop_signals_note() const {
  const bool mpirun_kills = launched_ && launched_->by == "Open MPI" &&
                            !std::getenv(kLaunchVariable) &&
                            !std::getenv("OMPI_MCA_odls_base_sigkill_timeout");
  if (!mpirun_kills) return "";
  return "note: mpirun kills the processes 2 seconds after it receives SIGTERM or SIGINT; to stop "
         "with a checkpoint send it SIGUSR1, or start the run by tessera launch\n";
}

bool Processes::is_leader() const {
  const int leader = lost_.load() == 0 ? 1 : 0;
  return !launched_ || launched_->process == leader;
}

void Processes::set_silent(bool silent) {
  if (log_ && !silent) log_->show();
  for (std::ostream* stream : {&std::cout, &std::cerr})
    stream->clear(silent && !log_ ? std::ios::badbit : std::ios::goodbit);
  set_log_level(silent ? LogLevel::kError : LogLevel::kInfo);
}

void Processes::check_plan(const Plan& plan) const {
  if (!are_several() || plan.rank_count() == count()) return;
  throw UserError(
      fmt::format("plan '{}' has {}, but {} started {}", plan.name,
                  counted(plan.rank_count(), "rank"), launched_->by, counted(count(), "process")),
      "each process runs one rank, and the mesh of the plan is " + mesh_text(plan),
      fmt::format("start {}, use a plan of {}, or start one process, in which the ranks "
                  "are threads",
                  counted(plan.rank_count(), "process"), counted(count(), "rank")),
      ExitCode::kBadConfig);
}

void Processes::refuse(const std::string& command) const {
  if (!are_several()) return;
  throw UserError(
      fmt::format("tessera {} was started as {} processes by {}", command, count(), launched_->by),
      "it works in one process, in which ranks are threads; train, eval, generate, predict and "
      "verify run in several",
      "start it once, without mpirun or srun", ExitCode::kUsage);
}

/// Ends the run during start-up. Before MPI is initialized, the launcher ends the other processes
/// when one ends with an error.
void Processes::end_before_the_start(const LostProcess& lost, Seconds deadline) {
  lost_.store(lost.process);
  if (!is_leader()) std::this_thread::sleep_for(kWaitForLeader);
  std::fprintf(stderr, "%s\n", lost_error(lost, deadline).what());
  std::_Exit(static_cast<int>(ExitCode::kRankLost));
}

RuntimeOptions Processes::connect(Seconds deadline) {
  if (!are_several()) return {};
  const StartWatch start(getppid(), deadline, [this, deadline](const LostProcess& lost) {
    end_before_the_start(lost, deadline);
  });
  mpi_ = std::make_unique<MpiProcess>();
  if (mpi_->size() != count() || mpi_->process() != launched_->process)
    throw UserError(
        fmt::format("{} started {} processes, but MPI sees {}", launched_->by, count(),
                    mpi_->size()),
        "ranks communicate over MPI, which knows only processes that its own mpirun or srun "
        "started",
        fmt::format("start the program by the mpirun of the MPI that it was built with: mpirun -n "
                    "{} tessera ...",
                    count()),
        ExitCode::kUsage);
  network_ = std::make_shared<ProcessNetwork>(mpi_->transport());
  liveness_ = std::make_unique<Liveness>(
      *network_, deadline,
      [this, deadline](const LostProcess& lost) {
        lost_.store(lost.process);
        network_->stop().fail({-1, "", "", std::make_exception_ptr(lost_error(lost, deadline))});
      },
      [this] {
        if (is_leader())
          std::fputs("a rank was lost, and this process did not stop by itself\n", stderr);
        std::_Exit(static_cast<int>(ExitCode::kRankLost));
      });
  return {.network = network_};
}

std::string Processes::from_leader(const std::function<std::string()>& make, Seconds deadline) {
  if (!are_several()) return make();
  ensure(network_ != nullptr, "the processes are not connected");
  std::string text;
  GatheredBytes gathered;
  on_all_processes(*network_, launched_->process, deadline, gathered, [&] {
    if (is_leader()) text = make();
  });
  network_->host().all_gather(std::as_bytes(std::span(text)), gathered, deadline);
  const std::span<const std::byte> bytes = gathered.at(0);
  text.assign(bytes.size(), '\0');
  std::ranges::transform(bytes, text.begin(), [](std::byte byte) { return char(byte); });
  // All check that they have the same text.
  const uint64_t hash = stable_hash(text);
  network_->host().all_gather(std::as_bytes(std::span(&hash, 1)), gathered, deadline);
  for (int process = 0; process < count(); ++process)
    ensure(std::ranges::equal(gathered.at(process), std::as_bytes(std::span(&hash, 1))),
           "processes received different texts from the leader");
  return text;
}

void Processes::report_failure(const std::exception_ptr& error) {
  if (network_) network_->fail({launched_->process, "", "", error});
  if (is_leader()) set_silent(false);
}

void Processes::end_all(int exit_code) {
  std::cout.flush();
  std::cerr.flush();
  if (!mpi_) std::_Exit(exit_code);
  if (!is_leader()) std::this_thread::sleep_for(kWaitForLeader);
  MpiProcess::abort(exit_code);
}

}  // namespace tessera
