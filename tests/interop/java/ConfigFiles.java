import java.io.File;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;
import org.apache.rocketmq.broker.schedule.DelayOffsetSerializeWrapper;
import org.apache.rocketmq.broker.subscription.SubscriptionGroupManager;
import org.apache.rocketmq.broker.topic.TopicConfigManager;
import org.apache.rocketmq.common.ConfigManager;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.TopicFilterType;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/**
 * The files of config/ through the classes that a broker has for them. `read` prints what they make of the files,
 * `write` has them write files of their own, `rewrite` what they have read.
 */
public class ConfigFiles {
    static String folder;

    public static class Topics extends TopicConfigManager {
        @Override public String configFilePath() { return folder + "/topics.json"; }
    }

    public static class Groups extends SubscriptionGroupManager {
        @Override public String configFilePath() { return folder + "/subscriptionGroup.json"; }
    }

    public static class Offsets extends ConsumerOffsetManager {
        @Override public String configFilePath() { return folder + "/consumerOffset.json"; }
    }

    /** What the broker's service of delayed messages does with its file. */
    public static class Delays extends ConfigManager {
        DelayOffsetSerializeWrapper table = new DelayOffsetSerializeWrapper();

        @Override public String configFilePath() { return folder + "/delayOffset.json"; }
        @Override public String encode() { return encode(false); }
        @Override public String encode(boolean pretty) { return table.toJson(pretty); }
        @Override public void decode(String text) {
            table = DelayOffsetSerializeWrapper.fromJson(text, DelayOffsetSerializeWrapper.class);
        }
    }

    public static void main(String[] args) throws Exception {
        folder = args[1];
        Topics topics = new Topics();
        Groups groups = new Groups();
        Offsets offsets = new Offsets();
        Delays delays = new Delays();
        List<ConfigManager> all = List.of(topics, groups, offsets, delays);
        if (args[0].equals("write")) {
            fill(topics, groups, offsets, delays);
        } else {
            for (ConfigManager one : all) {
                if (!new File(one.configFilePath()).exists()) throw new Exception("no " + one.configFilePath());
                if (!one.load()) throw new Exception("cannot load " + one.configFilePath());
            }
        }
        if (!args[0].equals("read")) for (ConfigManager one : all) one.persist();
        print(topics, groups, offsets, delays);
        // Whatever threads there are.
        System.exit(0);
    }

    static void fill(Topics topics, Groups groups, Offsets offsets, Delays delays) {
        TopicConfig topic = new TopicConfig("J", 3, 5, 4);
        topic.setTopicFilterType(TopicFilterType.MULTI_TAG);
        topic.setOrder(true);
        topic.setTopicSysFlag(2);
        topic.getAttributes().put("message.type", "FIFO");
        topics.getTopicConfigTable().put("J", topic);
        topics.getTopicConfigTable().put("%RETRY%j", new TopicConfig("%RETRY%j", 1, 1, 6));
        topics.getDataVersion().nextVersion();
        SubscriptionGroupConfig group = new SubscriptionGroupConfig();
        group.setGroupName("j");
        group.setConsumeEnable(false);
        group.setConsumeMessageOrderly(true);
        group.setRetryMaxTimes(7);
        group.setRetryQueueNums(2);
        group.setBrokerId(1);
        groups.getSubscriptionGroupTable().put("j", group);
        ConcurrentMap<String, Integer> forbidden = new ConcurrentHashMap<>();
        forbidden.put("J", 4);
        groups.getForbiddenTable().put("j", forbidden);
        groups.getDataVersion().nextVersion();
        ConcurrentMap<Integer, Long> queues = new ConcurrentHashMap<>();
        queues.put(0, 5L);
        queues.put(2, 9007199254740991L);
        offsets.getOffsetTable().put("J@j", queues);
        delays.table.getOffsetTable().put(1, 12L);
        delays.table.getOffsetTable().put(18, 0L);
    }

    static void print(Topics topics, Groups groups, Offsets offsets, Delays delays) throws Exception {
        List<String> lines = new ArrayList<>();
        for (TopicConfig topic : topics.getTopicConfigTable().values()) {
            lines.add(line("topic", topic.getTopicName(), topic.getPerm(), topic.getReadQueueNums(),
                topic.getWriteQueueNums(), topic.getTopicFilterType(), topic.getTopicSysFlag(), topic.isOrder(),
                new TreeMap<>(topic.getAttributes())));
        }
        for (SubscriptionGroupConfig group : groups.getSubscriptionGroupTable().values()) {
            lines.add(line("group", group.getGroupName(), group.isConsumeEnable(), group.isConsumeFromMinEnable(),
                group.isConsumeBroadcastEnable(), group.isConsumeMessageOrderly(), group.getRetryQueueNums(),
                group.getRetryMaxTimes(), group.getBrokerId(), group.getWhichBrokerWhenConsumeSlowly(),
                group.getConsumeTimeoutMinute(), new TreeMap<>(group.getAttributes())));
        }
        for (Map.Entry<String, ? extends Map<String, Integer>> one : groups.getForbiddenTable().entrySet()) {
            one.getValue().forEach((topic, mask) -> lines.add(line("forbidden", one.getKey(), topic, mask)));
        }
        for (Map.Entry<String, ? extends Map<Integer, Long>> one : offsets.getOffsetTable().entrySet()) {
            one.getValue().forEach((queue, offset) -> lines.add(line("offset", one.getKey(), queue, offset)));
        }
        delays.table.getOffsetTable().forEach((level, offset) -> lines.add(line("delay", level, offset)));
        for (ConfigManager one : List.of(topics, groups)) {
            DataVersion version = (DataVersion) one.getClass().getMethod("getDataVersion").invoke(one);
            lines.add(line("version", new File(one.configFilePath()).getName(), version.getCounter(),
                version.getTimestamp(), version.getStateVersion()));
        }
        Collections.sort(lines);
        for (String one : lines) System.out.println(one);
    }

    static String line(Object... fields) {
        StringBuilder text = new StringBuilder();
        for (Object field : fields) text.append(text.length() == 0 ? "" : "\t").append(field);
        return text.toString();
    }
}
