// The `forcelog` command from its source, whatever was built.
import { runProcess } from "../../cli/main.ts";

await runProcess();
