// Compares the transport over MPI with MPI itself, in one run: two processes exchange pieces of
// memory.
//
//     mpirun -n 2 mpi_bench
//
// In our transport, each receiver posts its memory and requests the data, and each sender answers
// from its own memory (ProcessNetwork). The baseline is MPI_Sendrecv of the same bytes. Then it
// compares sums and gathers in the compiled order with MPI's collectives (Reduction::kFast).
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "runtime/comm/network.h"
#include "runtime/mpi/mpi_process.h"
#include "runtime/runtime/runtime.h"
#include "task_graph/tasks/testing/hand_made.h"

namespace tessera {
namespace {

constexpr int kRounds = 60;  // of each, alternately

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The lower quartile, which other jobs on the machine hardly affect.
double lower_quartile(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 4];
}

/// A program with one piece of memory that the other side may request.
class OnePiece : public ProgramPort {
 public:
  explicit OnePiece(std::span<const std::byte> memory)
      : slots_{memory.data()},
        pieces_{{.bytes = static_cast<int64_t>(memory.size()), .in_place = true}} {}
  void take(const Message&) override {}
  void note_filled(const Message&) override {}
  std::optional<Answer> answer(const FetchRequest&) override { return Answer{&pieces_, slots_}; }

 private:
  std::vector<const std::byte*> slots_;
  std::vector<SentPiece> pieces_;
};

void compare(ProcessNetwork& network, size_t bytes) {
  const int other = 1 - network.process();
  std::vector<std::byte> mine(bytes, std::byte{1}), theirs(bytes);
  OnePiece piece(mine);
  const int program = network.programs().new_program(), tag = network.fetch().new_tags(2);
  network.programs().open(program, piece);
  const auto ours = [&] {
    Countdown under_way{1};
    network.fetch().receive(other, tag, theirs, under_way);
    network.fetch().request(other, {program, 0, 0, tag, 0});
    network.channel().wait_until([&] { return under_way.load(std::memory_order_acquire) == 0; },
                                 std::chrono::steady_clock::now() + std::chrono::seconds(60));
  };
  const auto bare = [&] {
    const auto count = static_cast<int>(bytes);
    MPI_Sendrecv(mine.data(), count, MPI_BYTE, other, 0, theirs.data(), count, MPI_BYTE, other, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  };
  std::vector<double> our_times, bare_times;
  for (int round = 0; round < kRounds; ++round) {
    network.host().barrier(Seconds(60));
    our_times.push_back(seconds_of(ours));
    network.host().barrier(Seconds(60));
    // Plain MPI uses the library alone.
    const FrameChannel::WaitScope relief(network.channel());
    bare_times.push_back(seconds_of(bare));
  }
  network.host().barrier(Seconds(60));
  network.programs().close(program);
  const double our = lower_quartile(our_times), plain = lower_quartile(bare_times);
  if (network.process() == 0)
    std::printf("%3zu MB each way: ours %8.1f us, MPI_Sendrecv %8.1f us, ratio %.2f\n", bytes >> 20,
                our * 1e6, plain * 1e6, our / plain);
}

/// The time of only the exchange, for a sum of `bytes` on each of two ranks.
double time_of_exchange(const std::shared_ptr<ProcessNetwork>& network, const std::string& from,
                        const std::string& to, int64_t count, Reduction reduction) {
  const auto mesh = std::make_shared<const Mesh>(parse_mesh("dp=2"));
  HandMade made(mesh);
  const std::string size = std::to_string(count);
  const bool is_sum = from.find("partial") != std::string::npos;
  RegisterIndex source =
      made.input("x", is_sum ? "f32[2@dp, " + size + "]" : "f32[" + size + "@dp]");
  if (is_sum)
    source = made.compute("addend", {"copy", {}, {}, ""}, {source}, "f32[" + size + "]" + from);
  made.reshard("y", source, "f32[" + size + to + "]");
  const auto graph = std::make_shared<const TaskGraph>(made.finish());
  Runtime runtime(mesh, {.network = network, .reduction = reduction});
  LoadedProgram& program = runtime.load(graph);
  const Tensor x(graph->inputs.front().type);
  TensorMap results;
  const auto step = [&] { runtime.run(program, {{"x", &x}}, results); };
  for (int warm_up = 0; warm_up < 3; ++warm_up) step();
  runtime.start_trace();
  for (int round = 0; round < kRounds; ++round) step();
  const Timeline timeline = runtime.stop_trace();
  std::map<int64_t, double> times;  // by step, of rank 0
  for (const Track& track : timeline.tracks)
    for (const Span& span : track.spans)
      if (track.rank == 0 && span.kind == Span::Kind::kCopy && span.name != "feed" &&
          span.name != "fetch")
        times[span.iteration] += (span.end - span.begin).value();
  std::vector<double> list;
  for (const auto& [record, time] : times) list.push_back(time);
  return list.empty() ? 0 : lower_quartile(list);  // the first process has the trace of all
}

/// Compares sums and gathers in the compiled order with those of MPI.
void compare_reductions(const std::shared_ptr<ProcessNetwork>& network, size_t bytes) {
  struct Kind {
    const char *name, *from, *to;
  };
  const auto count = static_cast<int64_t>(bytes / sizeof(float));
  for (const Kind& kind :
       {Kind{"all-reduce", " {partial sum: dp}", ""},
        Kind{"reduce-scatter", " {partial sum: dp}", "@dp"}, Kind{"all-gather", "@dp", ""}}) {
    const double ordered =
        time_of_exchange(network, kind.from, kind.to, count, Reduction::kOrdered);
    const double fast = time_of_exchange(network, kind.from, kind.to, count, Reduction::kFast);
    if (network->process() == 0)
      std::printf("%3zu MB %-14s ordered %8.1f us, fast (MPI's own) %8.1f us, ratio %.2f\n",
                  bytes >> 20, kind.name, ordered * 1e6, fast * 1e6, fast / ordered);
  }
}

int run() {
  MpiProcess process;
  if (process.size() != 2) {
    if (process.process() == 0)
      std::printf("mpi_bench compares two processes: mpirun -n 2 mpi_bench\n");
    return 0;
  }
  const auto network = std::make_shared<ProcessNetwork>(process.transport());
  for (const size_t megabytes : {1, 4, 16}) compare(*network, megabytes << 20);
  for (const size_t megabytes : {1, 4, 16}) compare_reductions(network, megabytes << 20);
  return 0;
}

}  // namespace
}  // namespace tessera

int main() {
  return tessera::run();
}
