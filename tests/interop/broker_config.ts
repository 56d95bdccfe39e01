/**
 * The classes that RocketMQ's broker has for the files of `config/`, driven by `java/ConfigFiles.java`. Maven
 * brings them: the judge of stores (`../support/oracle.ts`) has no broker.
 *
 * @module
 */

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Test } from "tap";
import { testFolder } from "../support/test_folder.ts";

const SOURCE = join(import.meta.dirname, "java/ConfigFiles.java");

/** Maven resolves this by itself; the plugin is the one that the judge of stores is built with. */
const CLASSPATH_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:build-classpath";

/** Of Maven the first time, which downloads; of a Java process; in ms. */
const MAVEN_MS = 300_000;
const JAVA_MS = 60_000;

/** Of a broker only its own classes are needed, and of what it depends on the store's part. */
const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>forcelog</groupId><artifactId>config-files</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-broker</artifactId>
      <version>\${rocketmq.version}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>
    <dependency>
      <groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-store</artifactId>
      <version>\${rocketmq.version}</version>
    </dependency>
  </dependencies>
</project>
`;

export class BrokerConfig {
  readonly #classpath: string;
  readonly #home: string;

  private constructor(classpath: string, home: string) {
    this.#classpath = classpath;
    this.#home = home;
  }

  /**
   * Resolves and compiles in the test's own folder.
   *
   * @returns Why not, if it can't be used.
   */
  static make(t: Test, version: string): BrokerConfig | string {
    for (const command of ["java", "javac", "mvn"]) {
      if (spawnSync(command, ["-version"]).error) return `there is no ${command}`;
    }
    const home = mkdtempSync(join(testFolder(t), "broker-"));
    writeFileSync(join(home, "pom.xml"), POM);
    const file = join(home, "classpath");
    const resolved = spawnSync(
      "mvn",
      ["-q", "-B", `-Drocketmq.version=${version}`, CLASSPATH_GOAL, `-Dmdep.outputFile=${file}`],
      { cwd: home, encoding: "utf8", timeout: MAVEN_MS },
    );
    if (resolved.status !== 0) {
      return `RocketMQ ${version} can't be resolved: ${resolved.stdout.trim().split("\n")[0]}`;
    }
    const classes = join(home, "classes");
    mkdirSync(classes);
    const classpath = `${classes}:${readFileSync(file, "utf8").trim()}`;
    const compiled = spawnSync("javac", ["-nowarn", "-d", classes, "-cp", classpath, SOURCE], {
      encoding: "utf8",
      timeout: JAVA_MS,
    });
    if (compiled.status !== 0) throw new Error(`Cannot compile ${SOURCE}: ${compiled.stderr}`);
    return new BrokerConfig(classpath, home);
  }

  /**
   * Has the broker's classes read the files, write files of their own, or write what they have read.
   *
   * @param config The folder, which must exist.
   * @returns What they hold, a line for each entry, sorted: fields with tabs between them.
   */
  run(what: "read" | "write" | "rewrite", config: string): string[] {
    const { status, stdout, stderr } = spawnSync(
      "java",
      // A broker writes its logs to the user's home.
      [`-Duser.home=${this.#home}`, "-cp", this.#classpath, "ConfigFiles", what, config],
      { encoding: "utf8", timeout: JAVA_MS },
    );
    if (status !== 0) throw new Error(`Java ended with ${status}: ${stderr.slice(-2000)}`);
    // Its logging talks as well.
    return stdout.split("\n").filter((line) => /^[a-z]+\t/.test(line));
  }
}
