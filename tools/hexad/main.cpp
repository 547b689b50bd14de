#include "tools/hexad/hexad_main.h"

int main(int argc, char** argv) { return hexad::hexad_main(argc, argv); }
