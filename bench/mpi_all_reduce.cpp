// The all-reduce of an MPI library over all processes: prints the microseconds of some calls, one
// per line, for actors_bench.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int count, char** words) {
  MPI_Init(&count, &words);
  const int elements = count > 1 ? std::atoi(words[1]) : 1 << 22;
  std::vector<float> addend(static_cast<size_t>(elements), 0.0f), sum(addend);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int call = 0; call < 14; ++call) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Allreduce(addend.data(), sum.data(), elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double mine = MPI_Wtime() - begin, slowest = 0;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0 && call >= 4)
      std::printf("%.3f\n", slowest * 1e6);  // the first calls make connections
  }
  MPI_Finalize();
  return 0;
}
