// The transport over MPI against MPI itself, in one run: two processes exchange pieces of memory.
//
//     mpirun -n 2 mpi_bench
//
// Ours: each receiver posts its memory and asks, each sender answers out of its own (Network). Bare: MPI_Sendrecv of the same bytes.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "mpi/mpi_process.h"
#include "runtime/network.h"

namespace tessera {
namespace {

constexpr int kRounds = 60;  // of each, taken in turn

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The quarter below which a machine with others on it is not to blame.
double lower_quartile(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 4];
}

/// Has one piece of memory that the other side may ask for.
class OnePiece : public ProgramPort {
 public:
  explicit OnePiece(std::span<const std::byte> memory)
      : memory_(memory), pieces_{{0, static_cast<int64_t>(memory.size()), std::nullopt, true}} {}
  void take(const Message&) override {}
  void note_filled(const Message&) override {}
  std::optional<Answer> answer(const Ask&) override { return Answer{&pieces_, memory_.data()}; }

 private:
  std::span<const std::byte> memory_;
  std::vector<SentPiece> pieces_;
};

void compare(Network& network, size_t bytes) {
  const int other = 1 - network.member();
  std::vector<std::byte> mine(bytes, std::byte{1}), theirs(bytes);
  OnePiece piece(mine);
  const int program = network.new_program(), tag = network.new_tags(2);
  network.open(program, piece);
  const auto ours = [&] {
    Countdown under_way{1};
    network.receive(other, tag, theirs, under_way);
    network.ask(other, {program, 0, 0, tag, 0});
    network.wait([&] { return under_way.load(std::memory_order_acquire) == 0; },
                 std::chrono::steady_clock::now() + std::chrono::seconds(60));
  };
  const auto bare = [&] {
    const auto count = static_cast<int>(bytes);
    MPI_Sendrecv(mine.data(), count, MPI_BYTE, other, 0, theirs.data(), count, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  };
  std::vector<double> our_times, bare_times;
  Meeting meeting;
  for (int round = 0; round < kRounds; ++round) {
    network.meet({}, meeting, Seconds(60));
    our_times.push_back(seconds_of(ours));
    network.meet({}, meeting, Seconds(60));
    // Bare MPI has the library for itself.
    const Network::Relief relief(network);
    bare_times.push_back(seconds_of(bare));
  }
  network.meet({}, meeting, Seconds(60));
  network.close(program);
  const double our = lower_quartile(our_times), plain = lower_quartile(bare_times);
  if (network.member() == 0)
    std::printf("%3zu MB each way: ours %8.1f us, MPI_Sendrecv %8.1f us, ratio %.2f\n", bytes >> 20, our * 1e6, plain * 1e6, our / plain);
}

int run() {
  MpiProcess process;
  if (process.members() != 2) {
    if (process.member() == 0) std::printf("mpi_bench compares two processes: mpirun -n 2 mpi_bench\n");
    return 0;
  }
  Network network(process.transport());
  for (const size_t megabytes : {1, 4, 16}) compare(network, megabytes << 20);
  return 0;
}

}  // namespace
}  // namespace tessera

int main() {
  return tessera::run();
}
