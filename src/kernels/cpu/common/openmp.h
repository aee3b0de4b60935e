// The threads of OpenMP, by which oneDNN divides its work.
#pragma once

namespace tessera {

/// Sets the number of threads that OpenMP uses for the calling thread.
///   throws  std::bad_alloc when there is no memory for it: OpenMP itself would end the program
void set_openmp_threads(int count);

/// The number that is set.
int openmp_threads();

}  // namespace tessera
