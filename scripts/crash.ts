// Cuts the power of stores on simulated disks, and looks whether they kept their promises:
//
//     npm run crash -- --seed 1 --rounds 10
//     npm run crash -- --replay "seed=1 workload=rolls mode=pool call=118 cut=torn"
//     npm run crash -- --failures      each system call failed once
//     npm run crash -- --canary        stores that lie, to see that this would be seen

import { crashCommand } from "../lib/testing/crash/command.ts";

process.exitCode = await crashCommand(process.argv.slice(2), (line) => console.log(line));
